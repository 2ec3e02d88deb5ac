"""Folders that could not be looked into, found by reading each one.

Git passes over a folder that it cannot open with a warning alone, and Python's own walks pass over
it without a word; neither may count as proof that nothing is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlindSpot:
    """A folder below the root of a walk, by its relative path, and why it stays unseen."""

    path: bytes
    why: str

    @property
    def shown(self) -> str:
        """The path as a message can carry it, not longer than a line or two."""
        return self.path.decode("utf-8", "backslashreplace")[:300]


def blind_spots(root: bytes, *, leave_out: bytes | None = None) -> Iterator[BlindSpot]:
    """Each folder at or below `root` that cannot be listed; `.` is the root itself.

    `leave_out` is a name directly below the root that is not walked. Links are not followed.
    Paths are absolute, so one that is too long for the system is a blind spot, too.
    """
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                # Where the file system does not tell kinds, this asks for each entry's status.
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            yield BlindSpot(folder or b".", error.strerror or type(error).__name__)
            continue
        waiting += [os.path.join(folder, name) for name in names if folder or name != leave_out]
