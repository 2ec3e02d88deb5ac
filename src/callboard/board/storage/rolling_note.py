"""The note of a board's packs: which one rolls, which stand, which may go.

A file in `<common_dir>/callboard`, one a ref. It is a hint and no authority: whoever reads it
checks everything against the packs themselves, so one that is missing, old, foreign or wrong costs
a new pack at most. It is not synced.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Annotated

import msgspec
from dulwich.file import SharedPerm, adjust_shared_perm

from callboard.board.storage.vanishing import make_folders, retried

_LIMIT_BYTES = 64 * 1024
_MOST = 64
Stem = Annotated[str, msgspec.Meta(pattern=r"^pack-([0-9a-f]{40}|[0-9a-f]{64})\Z")]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Tip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pack whose newest ledger is `blob`; the rest is its `rolling.Mark`."""

    pack: Stem
    blob: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})\Z")]
    closed: Count
    closed_bytes: Count


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tips`: the pack being made, and the one before it; `standing`: those that were full, oldest
    first; `spent`: those that a later one has replaced, and that may still be there; `gone`: those
    removed lately."""

    tips: tuple[Tip, ...] = ()
    standing: tuple[Stem, ...] = ()
    spent: tuple[Stem, ...] = ()
    gone: tuple[Stem, ...] = ()


class NoteFile:
    """The note about `ref`."""

    def __init__(self, common_dir: Path, ref: str, shared: SharedPerm | None) -> None:
        self._common_dir = common_dir
        self._path = common_dir / "callboard" / (
            "packs-" + hashlib.sha256(ref.encode()).hexdigest()[:32] + ".json"
        )  # fmt: skip
        self._shared = shared

    def read(self) -> Note | None:
        """The note; None where there is none that can be read."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as stream:
                data = stream.read(_LIMIT_BYTES + 1)
            if len(data) > _LIMIT_BYTES:
                return None
            return msgspec.json.decode(data, type=Note)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def write(self, note: Note) -> None:
        """Replace the note; where that fails the next append does without it."""
        note = Note(note.tips, note.standing[-_MOST:], note.spent[-_MOST:], note.gone[-_MOST:])
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        try:
            retried(lambda: self._put(temporary, msgspec.json.encode(note)))
        except OSError:
            try:
                temporary.unlink(missing_ok=True)
            except OSError:
                return

    def _put(self, temporary: Path, data: bytes) -> None:
        make_folders(self._common_dir, self._path.parent, self._shared, set())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(temporary, flags, 0o644)
        except FileExistsError:
            # One that a dead process left; only the holder of the ref's turn writes here.
            temporary.unlink(missing_ok=True)
            descriptor = os.open(temporary, flags, 0o644)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        adjust_shared_perm(temporary, self._shared)
        os.replace(temporary, self._path)
