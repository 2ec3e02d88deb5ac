"""Reading packed and borrowed objects through dulwich.

Read only. Faults of a pack come out as the package's own refusals, and a pack that another
process replaces meanwhile is looked up again.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dulwich.errors import ChecksumMismatch, FileFormatException
from dulwich.object_format import OBJECT_FORMATS
from dulwich.object_store import BaseObjectStore, DiskObjectStore
from dulwich.objects import ObjectID

from callboard.board.storage.refusals import io_refused, object_corrupt, object_missing
from callboard.board.storage.vanishing import retried

_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_MAX_BORROWED = 64
_T = TypeVar("_T")
_UNREADABLE = (
    ChecksumMismatch,
    FileFormatException,
    zlib.error,
    struct.error,
    ValueError,
    AssertionError,
    IndexError,
    EOFError,
)


class Packs:
    """The packs of `folder`, and all objects of the folders it borrows from."""

    def __init__(self, folder: Path, object_format: str) -> None:
        self._folder = folder
        self._store = _Store(folder, object_format)

    def close(self) -> None:
        """Close the open pack files."""
        self._store.close()

    def holds(self, oid: str) -> bool:
        """Whether the object can be found."""
        return self._ask(oid, self._store.__contains__)

    def read(self, oid: str) -> tuple[str, bytes]:
        """The object's kind and contents; `object_missing` or `object_corrupt` otherwise."""
        number, data = self._ask(oid, self._store.get_raw)
        return _KINDS.get(number, "object of no known kind"), data

    def _ask(self, oid: str, question: Callable[[ObjectID], _T]) -> _T:
        name = ObjectID(oid.encode())
        try:
            # Git's maintenance may remove a file between the look for it and its opening.
            return retried(lambda: question(name))
        except KeyError as error:
            raise object_missing(oid) from error
        except OSError as error:
            raise io_refused("read the packs of", self._folder, error) from error
        except _UNREADABLE as error:
            # Without the frames, which would keep the pack's mapping from being closed.
            cause = error.with_traceback(None)
            raise object_corrupt(oid, "its pack cannot be read") from cause


class _Store(DiskObjectStore):
    """dulwich's store, with borrowed folders opened in the repository's own object format.

    The chain of borrowed folders is flattened once, so that a cycle in it ends.
    """

    def __init__(self, folder: Path, object_format: str, *, follow: bool = True) -> None:
        super().__init__(folder, object_format=OBJECT_FORMATS[object_format])
        self._borrowed: list[BaseObjectStore] = []
        if follow:
            self._borrowed = [
                _Store(other, object_format, follow=False) for other in _borrowed_folders(folder)
            ]

    @property
    def alternates(self) -> list[BaseObjectStore]:
        return self._borrowed

    def close(self) -> None:
        for other in self._borrowed:
            other.close()
        super().close()


def _borrowed_folders(folder: Path) -> list[Path]:
    """Every object folder that `folder` borrows from, nearest first, each once."""
    seen = [folder.resolve()]
    for place in seen:
        try:
            text = (place / "info" / "alternates").read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        for line in text.splitlines():
            if not line or line.startswith(b"#"):
                continue
            other = (place / os.fsdecode(line)).resolve()
            if other not in seen and other.is_dir() and len(seen) <= _MAX_BORROWED:
                seen.append(other)
    return seen[1:]
