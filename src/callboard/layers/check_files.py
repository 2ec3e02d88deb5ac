"""The checks of a layer's goal as their files have them: all sound, or every fault of every file.

Source: layers.md §4. It reads the folder of checks, and runs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from callboard.errors import CallboardError
from callboard.layers.around import Around
from callboard.layers.names import twin
from callboard.layers.records import base
from callboard.layers.records.evaluation import Check
from callboard.layers.tree import Layer
from callboard.layers.yaml_records.faults import Faults, quoted
from callboard.layers.yaml_records.typed import read_yaml
from callboard.visible import visible

CHECKS = "eval_checks"
MAX_CHECKS = 200
MAX_CHECK_BYTES = 256 * 1024
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class CheckFile:
    """One check as its file has it."""

    name: str
    sha256: str
    check: Check


def checks_of(around: Around, layer: Layer) -> tuple[CheckFile, ...]:
    """All checks of a layer, by name. Raises `eval_check_invalid` with every fault of every file,
    and `eval_checks_missing` where there is none."""
    faults = Faults()
    found: list[CheckFile] = []
    first: dict[str, CheckFile] = {}
    for name in around.disk.names(layer.file(CHECKS)):
        if name.startswith(".") or not name.lower().endswith(_SUFFIXES):
            continue
        one = _check_of(around, layer, name, faults, first)
        if one is not None:
            found.append(one)
    if len(found) > MAX_CHECKS:
        faults.add(CHECKS, 1, 1, "", f"has {len(found)} checks, more than {MAX_CHECKS}")
    if faults.count:
        raise CallboardError(
            "eval_check_invalid",
            faults.summary("the folder of checks"),
            "correct each check; the faults are told with file, line and column",
            faults.details(),
        )
    if not found:
        raise CallboardError(
            "eval_checks_missing",
            f"there is no check in {CHECKS}",
            "the reviewer writes checks first, one YAML file each",
        )
    return tuple(found)


def _check_of(
    around: Around, layer: Layer, name: str, faults: Faults, first: dict[str, CheckFile]
) -> CheckFile | None:
    """The check in one file, whose id no other one has; None where it has faults."""
    shown = visible(name)[:200]
    if shown != name:
        faults.add(shown, 1, 1, "", "the file's name has characters that cannot be seen")
        return None
    try:
        data = around.disk.read(layer.file(CHECKS, name), MAX_CHECK_BYTES, what="the check")
    except CallboardError as error:
        if error.code not in ("file_not_regular", "file_unreadable", "resource_limit"):
            raise
        faults.add(shown, 1, 1, "", error.message)
        return None
    read = read_yaml(data, Check, name, faults)
    if read is None:
        return None
    one = CheckFile(name, base.digest(data), read[0])
    other = first.setdefault(twin(one.check.check_id), one)
    if other is not one:
        at = read[1].at("check_id")
        faults.add(
            name, at.line, at.column, "/check_id",
            f"{quoted(one.check.check_id)} would be confused with {quoted(other.check.check_id)}"
            f" of {other.name}",
        )  # fmt: skip
        return None
    return one
