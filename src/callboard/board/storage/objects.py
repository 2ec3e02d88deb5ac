"""One repository's object database: bounded, verified reads and durable writes.

Loose objects are read and written here; packs and borrowed folders are read by `packs`, and the
board's own pack is written by `rolling_store`. An object is visible under its name only when it is
complete. Nothing is ever deleted here; what Git's maintenance deletes before a ref keeps it is
written again.

dulwich's own writer is not used because it guards an object by `<name>.lock`, which a killed
process leaves behind for good, and because it does not sync the folders.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dulwich.file import SharedPerm, adjust_shared_perm
from dulwich.object_format import OBJECT_FORMATS

from callboard.board.storage import loose
from callboard.board.storage.refusals import (
    object_corrupt,
    object_missing,
    object_too_large,
    typed_io,
)
from callboard.board.storage.vanishing import make_folders, retried
from callboard.errors import CallboardError
from callboard.files import sync_folder

if TYPE_CHECKING:
    from callboard.board.storage.packs import Packs

_OID = re.compile(r"[0-9a-f]+")
# JSON shrinks to a quarter at level 1; level 6 wins 7 % more for two and a half times the time.
_ZLIB_LEVEL = 1
_PIECE_BYTES = 1024 * 1024
_REMEMBERED = 8


class Objects:
    """The objects under `folder` (a repository's `objects`), named by `object_format`."""

    def __init__(self, folder: Path, object_format: str, shared: SharedPerm | None) -> None:
        self._folder = folder
        self._format = OBJECT_FORMATS[object_format]
        self._object_format = object_format
        self._shared = shared
        self._lock = threading.RLock()
        self._packs: Packs | None = None
        self._unsynced: set[Path] = set()
        self._fresh: dict[str, tuple[str, Sequence[bytes]]] = {}
        self._recent: dict[str, tuple[str, bytes]] = {}

    def close(self) -> None:
        """Let go of the open packs. May be called twice; later reads open them again."""
        with self._lock:
            if self._packs is not None:
                self._packs.close()
                self._packs = None

    def is_oid(self, text: str) -> bool:
        """Whether `text` is a full object name of this repository's format."""
        return len(text) == self._format.hex_length and _OID.fullmatch(text) is not None

    def contains(self, oid: str) -> bool:
        """Whether the object is here or in a borrowed folder."""
        if not self.is_oid(oid):
            return False
        if self._path(oid).exists():
            return True
        with self._lock:
            return self._open_packs().holds(oid)

    def read(self, oid: str, kind: str, limit_bytes: int) -> bytes:
        """The contents of the `kind` object `oid`, at most `limit_bytes` of them.

        Raises `CallboardError` `object_missing`, `object_corrupt`, `object_wrong_kind` or
        `resource_limit`.
        """
        if not self.is_oid(oid):
            raise object_missing(oid)
        found_kind, data = self._recent.get(oid) or self._found(oid, limit_bytes)
        if found_kind != kind:
            raise CallboardError(
                "object_wrong_kind",
                f"the Git object {oid} is a {found_kind}, not a {kind}",
                f"name a {kind}",
                {"object": oid, "found": found_kind, "expected": kind},
            )
        if len(data) > limit_bytes:
            raise object_too_large(oid, len(data), limit_bytes)
        if self.name(found_kind, (data,)) != oid:
            raise object_corrupt(oid, "its contents have another name")
        return data

    def remember(self, oid: str, kind: str, data: bytes) -> None:
        """Answer reads of this object, stored elsewhere just now, without looking for it.

        For the few last small ones, which the next commit is built upon.
        """
        with self._lock:
            self._recent[oid] = kind, data
            while len(self._recent) > _REMEMBERED:
                del self._recent[next(iter(self._recent))]

    def _found(self, oid: str, limit_bytes: int) -> tuple[str, bytes]:
        found = loose.read(self._path(oid), oid, limit_bytes)
        if found is not None:
            return found
        try:
            with self._lock:
                return self._open_packs().read(oid, limit_bytes)
        except CallboardError as error:
            # Git's maintenance may have taken it out of a pack in between.
            found = loose.read(self._path(oid), oid, limit_bytes)
            if found is None or error.code != "object_missing":
                raise
            return found

    def write(self, kind: str, pieces: Sequence[bytes]) -> str:
        """Store the object whose contents are `pieces` joined; answers its name.

        The file is synced; its folder is once `sync` returns, which has to come before anything
        may point to the object. Until then `pieces` are held.
        """
        oid = self.name(kind, pieces)
        with typed_io("write the object", self._path(oid)), self._lock:
            retried(lambda: self._store(oid, kind, pieces))
            self._fresh[oid] = (kind, pieces)
        return oid

    def sync(self) -> None:
        """Make the names of all objects written so far durable, and see that none was pruned.

        Nothing points to them yet, so `git prune --expire=now` takes them for forgotten. As with
        Git itself, one that does so after this, and before the ref moves, is not noticed.
        """
        with typed_io("sync", self._folder), self._lock:
            retried(self._settle)
            self._fresh.clear()
            self._unsynced.clear()

    def _settle(self) -> None:
        for folder in sorted(self._unsynced):
            try:
                sync_folder(folder)
            except FileNotFoundError:
                # It was removed, and with it the objects that are missed below.
                self._unsynced.discard(folder)
        gone = [oid for oid in self._fresh if not self._path(oid).exists()]
        for oid in gone:
            self._store(oid, *self._fresh[oid])
        if gone:
            raise FileNotFoundError(errno.ENOENT, "objects were pruned", str(self._folder))

    def loose_bytes(self, oid: str) -> int:
        """What the object takes as a file of its own; 0 where it has none."""
        try:
            return self._path(oid).stat().st_size
        except OSError:
            return 0

    def name(self, kind: str, pieces: Sequence[bytes]) -> str:
        """The name that the object whose contents are `pieces` joined bears."""
        digest = hashlib.new(self._object_format, usedforsecurity=False)
        digest.update(loose.header(kind, pieces))
        for piece in pieces:
            digest.update(piece)
        return digest.hexdigest()

    def _path(self, oid: str) -> Path:
        return self._folder / oid[:2] / oid[2:]

    # --- reading ---

    def _open_packs(self) -> Packs:
        if self._packs is None:
            # Imported when first needed: it takes longer than reading a whole small ledger.
            from callboard.board.storage.packs import Packs

            with typed_io("open the packs of", self._folder):
                self._packs = Packs(self._folder, self._format.hex_length // 2)
        return self._packs

    # --- writing ---

    def _store(self, oid: str, kind: str, pieces: Sequence[bytes]) -> None:
        path = self._path(oid)
        if not self._kept(oid, path, sum(map(len, pieces))):
            self._write_loose(path, kind, pieces)
        self._unsynced.add(path.parent)

    def _kept(self, oid: str, path: Path, size_bytes: int) -> bool:
        """Whether a whole object already stands at `path`; it is then made young and durable.

        Young, so that a prune running beside us does not take it for forgotten.
        """
        try:
            with path.open("rb") as stream:
                kind, data = loose.inflate(stream.read(), oid, size_bytes)
                if self.name(kind, (data,)) != oid:
                    return False
                os.utime(path)
                os.fsync(stream.fileno())
        except (FileNotFoundError, PermissionError, zlib.error, ValueError, CallboardError):
            return False
        return True

    def _write_loose(self, path: Path, kind: str, pieces: Sequence[bytes]) -> None:
        make_folders(self._folder, path.parent, self._shared, self._unsynced)
        # The prefix by which Git's own prune knows an abandoned object file.
        temporary = path.parent / f"tmp_obj_{secrets.token_hex(8)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                deflate = zlib.compressobj(_ZLIB_LEVEL)
                stream.write(deflate.compress(loose.header(kind, pieces)))
                for piece in pieces:
                    view = memoryview(piece)
                    for start in range(0, len(piece), _PIECE_BYTES):
                        stream.write(deflate.compress(view[start : start + _PIECE_BYTES]))
                stream.write(deflate.flush())
                stream.flush()
                os.fsync(stream.fileno())
            adjust_shared_perm(temporary, self._shared)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
