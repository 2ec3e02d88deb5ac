"""The workflow sets that come with the program, and putting one into a repository.

No file that is there is ever changed. A packaged set names no agent: whoever installs it says
which command carries out its roles, or writes that into the files later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

from callboard.errors import CallboardError
from callboard.layers.disk import Disk
from callboard.layers.records.workflow import Harness
from callboard.layers.yaml_records.faults import near, quoted
from callboard.visible import visible

SETS = ".callboard/workflow_sets"
"""Where the sets of a repository are."""
UNSET = "command: []"
"""How a packaged role says that no command is chosen yet."""


def packaged() -> tuple[str, ...]:
    """The names of the sets that come with the program."""
    return tuple(sorted(found.name for found in _folder().iterdir() if found.is_dir()))


def install(disk: Disk, name: str, harness: Sequence[str] = ()) -> list[str]:
    """Write the files of a packaged set that are not there yet; returns their places.

    `harness` is the command of every role that is written; without it, the set is refused with
    `harness_missing` until its files name one. Raises `workflow_set_missing`, `harness_invalid`.
    """
    if name not in packaged():
        raise CallboardError(
            "workflow_set_missing",
            f"there is no packaged workflow set {quoted(name)}{near(name, packaged())}",
            f"choose one of {', '.join(packaged())}",
            {"workflow_set": name[:200]},
        )
    command = f"command: {_spelled(harness)}" if harness else UNSET
    written = []
    for below, source in _files(_folder() / name, ""):
        place = f"{SETS}/{name}{below}"
        data = source.read_bytes()
        if source.name == "config.yaml":
            data = data.replace(UNSET.encode(), command.encode())
        disk.make_folder(place.rpartition("/")[0])
        if disk.publish_new(place, data):
            written.append(place)
    return written


def _folder() -> Traversable:
    return files("callboard.layers") / "packaged"


def _files(folder: Traversable, below: str) -> Iterator[tuple[str, Traversable]]:
    for found in sorted(folder.iterdir(), key=lambda one: one.name):
        place = f"{below}/{found.name}"
        if found.is_dir():
            yield from _files(found, place)
        elif found.name.endswith((".yaml", ".md")):
            yield place, found


def _spelled(harness: Sequence[str]) -> str:
    """The words as a list of quoted YAML texts; YAML has the escapes of `visible`."""
    try:
        words = msgspec.convert({"command": list(harness)}, Harness).command
        "".join(words).encode("utf-8")
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise CallboardError(
            "harness_invalid",
            f"{quoted(' '.join(map(ascii, harness)))} cannot be a command",
            "give the program and its arguments, 200 at most, in UTF-8 and without NUL",
        ) from error
    escaped = (visible(word.replace("\\", "\\\\").replace('"', '\\"')) for word in words)
    return "[" + ", ".join(f'"{word}"' for word in escaped) + "]"
