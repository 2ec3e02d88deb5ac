"""What a check found: a code, a place, what is wrong there, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from callboard.errors import CallboardError
from callboard.visible import visible

_RESTORE = "restore the file from a backup; nothing is ever derived from a damaged one"
HINTS = {
    "layer_corrupt": _RESTORE,
    "hash_mismatch": "restore the bytes that were frozen; what was frozen is never edited",
    "topology_broken": "run `callboard layers run`, which goes on where it was interrupted;"
    " what is still told afterwards has to be restored from a backup",
    "limit_exceeded": "end layers or begin a new root; limits of a tree are never raised",
    "temporary_file": "it is of a process that is at work, or left over from one that was killed;"
    " `callboard layers start` and `run` take left-over folders away, and whatever is left while"
    " none runs may be deleted",
    "updates_unreadable": "nothing has to be done: the layer's next attempt sets it aside in"
    " protocol_failures, and is told so",
    "foreign_file": "move it elsewhere; nothing reads it here",
    "file_not_regular": "put a plain file or folder there; links are never followed",
    "file_unreadable": "check the permissions and the disk",
}
"""Each code that a finding may have, with what to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `place` is relative to the repository."""

    code: str
    place: str
    message: str
    hint: str


class Findings:
    """All that was found so far, each thing once."""

    def __init__(self) -> None:
        self._found: set[Finding] = set()

    def add(self, code: str, place: str, message: str) -> None:
        """One more; `code` is one of `HINTS`."""
        self._found.add(Finding(code, visible(place), visible(message), HINTS[code]))

    def refused(self, place: str, error: CallboardError) -> None:
        """A file that could not be taken for what it should be."""
        if error.code == "layer_corrupt":
            self.add("layer_corrupt", place, str(error.details["what"]))
        elif error.code in ("path_invalid", "file_not_regular"):
            self.add("file_not_regular", place, error.message)
        else:
            self.add("file_unreadable", place, error.message)

    def sorted(self) -> tuple[Finding, ...]:
        """By place, then by code and message."""
        return tuple(sorted(self._found, key=lambda one: (one.place, one.code, one.message)))
