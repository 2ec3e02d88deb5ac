"""Remediation verifiers: `.callboard/verifiers/<name>.toml`, read into a typed value or refused.

Source: specification 1, §7.15. A verifier says whether a delivery-failed node may be replaced
without blindly repeating what it wrote. Its file is registered by being committed; nothing here
runs anything or reads a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from callboard.board.publishing.toml_fields import Fields, is_file_stem, variable_fault
from callboard.board.publishing.toml_text import read_toml
from callboard.errors import CallboardError
from callboard.validate import near

Disposition = Literal["idempotent", "compensated", "inspection"]
DISPOSITIONS: tuple[Disposition, ...] = get_args(Disposition)

MAX_VERIFIER_BYTES = 64 * 1024
FOLDER = ".callboard/verifiers/"
SUFFIX = ".toml"
MAX_VERIFIERS = 256
_MAX_TIMEOUT_S = 3_600
_TIMEOUT_S = 300
_MAX_NAMED = 8


@dataclass(frozen=True, slots=True)
class Verifier:
    """A verifier as its file describes it. `timeout_s` in seconds; names sorted, each once.

    `command` is an argument list; `env` names variables of the caller that pass to it;
    `dispositions` are those that it may attest.
    """

    command: tuple[str, ...]
    dispositions: tuple[Disposition, ...]
    timeout_s: int = _TIMEOUT_S
    env: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """What a person is shown of it."""
        return {"dispositions": list(self.dispositions), "timeout_s": self.timeout_s}


def verifier_path(name: str) -> str:
    """The path of the verifier `name`. Raises `remediation_verifier_unknown` for no name at all."""
    if not is_file_stem(name):
        raise CallboardError(
            "remediation_verifier_unknown",
            f"{name[:80]!r} cannot name a remediation verifier",
            "use 1 to 64 letters, digits, '_', '-' and '.', starting with a letter or digit",
        )
    return FOLDER + name + SUFFIX


def verifier_name(path: str) -> str | None:
    """The name of the verifier at `path`; None where none can lie there."""
    if not path.startswith(FOLDER) or not path.endswith(SUFFIX):
        return None
    name = path[len(FOLDER) : -len(SUFFIX)]
    return name if is_file_stem(name) else None


def parse_verifier(data: bytes, *, name: str) -> Verifier:
    """The verifier in `data`, the file of that name.

    Raises `verifier_invalid` with every fault in `details.faults`, each `{pointer, message}`, or
    `resource_limit` for more than 64 KiB.
    """
    path = verifier_path(name)
    table = read_toml(data, path=path, code="verifier_invalid", limit_bytes=MAX_VERIFIER_BYTES)
    fields = Fields(table)
    fields.unknown(table, tuple(Verifier.__slots__), "")
    command = fields.required_argv("command")
    named = fields.names("dispositions", _disposition_fault)
    if not table.get("dispositions"):
        listed = ", ".join(DISPOSITIONS)
        fields.fault("/dispositions", f"is missing: what it may attest, of {listed}")
    timeout_s = fields.integer("timeout_s", _TIMEOUT_S, 1, _MAX_TIMEOUT_S)
    env = fields.names("env", variable_fault)
    if fields.faults:
        raise fields.refusal("verifier_invalid", path)
    dispositions = tuple(one for one in DISPOSITIONS if one in named)
    return Verifier(command, dispositions, timeout_s, env)


def _disposition_fault(name: str) -> str:
    if name in DISPOSITIONS:
        return ""
    known: list[str] = list(DISPOSITIONS)
    return "is no disposition" + (near(name, known) or f"; known are {', '.join(known)}")


def read_verifiers(
    paths: Iterable[str], read: Callable[[str], bytes | None]
) -> Mapping[str, Verifier | CallboardError]:
    """Every verifier among the files `paths` of `FOLDER`, by name; a faulty one as its refusal.

    Raises `config_invalid` for more than `MAX_VERIFIERS`, before any is read.
    """
    names = [
        path[len(FOLDER) : -len(SUFFIX)]
        for path in paths
        if path.startswith(FOLDER) and path.endswith(SUFFIX)
    ]
    if len(names) > MAX_VERIFIERS:
        raise CallboardError(
            "config_invalid",
            f"{FOLDER} holds {len(names)} verifiers, at most {MAX_VERIFIERS} are read",
            "keep those that this board needs, and commit",
            {"count": len(names), "limit": MAX_VERIFIERS},
        )
    found: dict[str, Verifier | CallboardError] = {}
    for name in names:
        try:
            data = read(verifier_path(name))
            if data is not None:
                found[name] = parse_verifier(data, name=name)
        except CallboardError as error:
            found[name] = error
    return found


def refuse_faulty(found: Mapping[str, Verifier | CallboardError]) -> dict[str, Verifier]:
    """The verifiers, or the refusal of those that are faulty, the first one's with their number."""
    faulty = {name: one for name, one in found.items() if isinstance(one, CallboardError)}
    if not faulty:
        return {name: one for name, one in found.items() if isinstance(one, Verifier)}
    first = next(iter(faulty.values()))
    if len(faulty) == 1:
        raise first
    named = ", ".join(repr(name[:80]) for name in list(faulty)[:_MAX_NAMED])
    raise CallboardError(
        first.code,
        f"{len(faulty)} verifiers are faulty, among them {named}; {first.message}",
        first.hint,
        {**first.details, "verifiers": list(faulty)},
    )
