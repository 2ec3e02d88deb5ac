"""Pack files in a repository's `objects/pack`: published durably, read whole, removed with care.

A pack is protected from `git repack -d` by a `.keep` file of its own until a ref leads to it. It is
removed only when another pack, already durable, holds every object in it, or nothing ever led to
it, and when nothing of Git's speaks of it. Nothing else in the folder is ever touched.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import struct
from collections.abc import Collection, Sequence, Set
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from dulwich.file import SharedPerm, adjust_shared_perm

from callboard.board.storage import pack_format as fmt
from callboard.board.storage.rolling import Image
from callboard.board.storage.vanishing import make_folders
from callboard.files import sync_folder

STEM = re.compile(r"pack-(?:[0-9a-f]{40}|[0-9a-f]{64})")
_MULTI = "multi-pack-index"
_KEEP = b"callboard: until its ref has moved\n"
# What Git lays beside a pack that it has made, or has thought about.
_FOREIGN = (".bitmap", ".promisor", ".mtimes", ".rev")
_NAMES_LIMIT_BYTES = 512 * 1024 * 1024


class PackFiles:
    """The packs below `objects`, named by their stem, `pack-` and hexadecimal digits."""

    def __init__(self, objects: Path, width: int, shared: SharedPerm | None) -> None:
        self._objects = objects
        self._folder = objects / "pack"
        self._width = width
        self._shared = shared
        self._keeps: dict[str, int] = {}

    def new_stem(self) -> str:
        """A name that no pack has, also none of the same contents."""
        return "pack-" + secrets.token_hex(self._width)

    def publish(self, stem: str, image: Image) -> None:
        """Make the pack and its index durable, kept until `release`.

        Raises `FileNotFoundError` where Git's maintenance removed what was being written; then,
        and after a success, it may be called again.
        """
        unsynced: set[Path] = set()
        make_folders(self._objects, self._folder, self._shared, unsynced)
        pack, index, keep = self._temporary(stem)
        try:
            self._write(pack, [*image.pieces, image.digest])
            self._write(index, [image.table])
            self._keep(stem, keep)
            os.replace(pack, self._path(stem, ".pack"))
            os.replace(index, self._path(stem, ".idx"))
        except BaseException:
            self.clear(stem)
            raise
        for folder in (*unsynced, self._folder):
            sync_folder(folder)

    def clear(self, stem: str) -> None:
        """Remove what was begun for a pack of that name and never became part of it."""
        for path in self._temporary(stem):
            path.unlink(missing_ok=True)

    def _temporary(self, stem: str) -> tuple[Path, Path, Path]:
        """Names by which Git's own prune knows abandoned files."""
        token = stem.removeprefix("pack-")
        pack, index, keep = (
            self._folder / f"tmp_{what}_{token}" for what in ("pack", "idx", "keep")
        )
        return pack, index, keep

    def is_whole(self, stem: str) -> bool:
        """Whether the pack and its index are there."""
        return all(self._path(stem, suffix).exists() for suffix in (".pack", ".idx"))

    def is_there(self, stem: str) -> bool:
        """Whether any part of the pack is there, or was begun."""
        mine = (self._path(stem, suffix) for suffix in (".idx", ".pack", ".keep"))
        return any(path.exists() for path in (*mine, *self._temporary(stem)))

    def _write(self, path: Path, pieces: list[fmt.Bytes]) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        with os.fdopen(descriptor, "wb", buffering=1024 * 1024) as stream:
            for piece in pieces:
                stream.write(piece)
            stream.flush()
            os.fsync(stream.fileno())
        adjust_shared_perm(path, self._shared)

    def _keep(self, stem: str, temporary: Path) -> None:
        """Lay the `.keep` file, and hold its lock, by which others know that we are alive."""
        path = self._path(stem, ".keep")
        if stem in self._keeps and path.exists():
            return
        self._let_go(stem)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = self._keeps[stem] = os.open(temporary, flags, 0o644)
        os.write(descriptor, _KEEP)
        # Without locks on this file system nobody can take it for a dead one's either.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        adjust_shared_perm(temporary, self._shared)
        os.replace(temporary, path)

    def release(self, stem: str) -> None:
        """Let Git's maintenance have the pack, now that a ref leads to it."""
        if stem in self._keeps:
            self._path(stem, ".keep").unlink(missing_ok=True)
        self._let_go(stem)

    def _let_go(self, stem: str) -> None:
        descriptor = self._keeps.pop(stem, None)
        if descriptor is not None:
            os.close(descriptor)

    def abandon(self, stem: str) -> None:
        """Leave the pack as a dead process would have: others may clear it away."""
        self._let_go(stem)

    def discard(self, stem: str) -> bool:
        """Remove a pack of our own that nothing leads to; False where it has to stay."""
        self._let_go(stem)
        return self.remove(stem, None, 0)

    # --- reading ---

    def read(self, stem: str, limit_bytes: int) -> tuple[bytes, bytes] | None:
        """The bytes of a pack and of its index; None where one is missing or larger."""
        try:
            with open(self._path(stem, ".pack"), "rb") as stream:
                if os.fstat(stream.fileno()).st_size > limit_bytes:
                    return None
                pack = stream.read()
            with open(self._path(stem, ".idx"), "rb") as stream:
                if os.fstat(stream.fileno()).st_size > limit_bytes:
                    return None
                return pack, stream.read()
        except OSError:
            return None

    def size(self, stem: str) -> int | None:
        """The size of the pack in bytes; None where there is none."""
        try:
            return os.stat(self._path(stem, ".pack")).st_size
        except OSError:
            return None

    def is_ordinary(self, stem: str) -> bool:
        """Whether nothing is laid beside the pack that would have to be heeded."""
        return not any(self._path(stem, suffix).exists() for suffix in (*_FOREIGN, ".keep"))

    # --- removing ---

    def names(self, stem: str, algorithm: str, limit_bytes: int) -> set[bytes]:
        """The names of the objects in the pack; none unless both its files are intact."""
        found = self.read(stem, limit_bytes)
        if found is None:
            return set()
        pack, index = found
        end = len(pack) - self._width
        try:
            if fmt.digest(algorithm, (memoryview(pack)[:end],)) != pack[end:]:
                return set()
            fmt.read_index(index, pack[end:], algorithm)
            return fmt.index_names(index, self._width)
        except (ValueError, struct.error):
            return set()

    def _names(self, stem: str, limit_bytes: int) -> set[bytes]:
        index = self._path(stem, ".idx")
        if index.stat().st_size > limit_bytes:
            raise ValueError("a larger index than ours are")
        return fmt.index_names(index.read_bytes(), self._width)

    def remove(self, stem: str, held: Sequence[Set[bytes]] | None, limit_bytes: int) -> bool:
        """Remove a pack all whose objects are among those `held`; True when it is gone.

        `held` are the names in other packs, which are durable; None where the caller knows that
        one of them has grown from this one. False, and nothing done, for a pack that holds more,
        that is kept, that Git has laid something beside, or that a multi-pack index names: Git
        takes one with a pack missing for damaged.
        """
        try:
            left = self._names(stem, limit_bytes) if held is not None else set()
        except FileNotFoundError:
            # Half of it may be there still, as its index goes first. Nobody reads that.
            self._remove_unreadable(stem)
            return True
        except (OSError, ValueError, struct.error):
            return False
        for names in held or ():
            left -= names
        if left or any(self._path(stem, suffix).exists() for suffix in _FOREIGN):
            return False
        if self._in_multi_pack_index(stem) or not self.unkeep(stem):
            return False
        self._path(stem, ".idx").unlink(missing_ok=True)
        self._path(stem, ".pack").unlink(missing_ok=True)
        return True

    def _remove_unreadable(self, stem: str) -> None:
        """Remove what is left of a pack without an index, if it was ours."""
        others = (".idx", *_FOREIGN)
        if self.unkeep(stem) and not any(self._path(stem, other).exists() for other in others):
            self._path(stem, ".pack").unlink(missing_ok=True)

    def unkeep(self, stem: str) -> bool:
        """Remove the `.keep` file that a dead process of ours left; False where one stays."""
        path = self._path(stem, ".keep")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        try:
            if os.read(descriptor, len(_KEEP) + 1) != _KEEP:
                return False
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            return False
        except OSError as error:
            return error.errno == errno.ENOENT
        finally:
            os.close(descriptor)
        return True

    def unkeep_left(self) -> None:
        """Remove every `.keep` file that dead processes of ours left in the folder."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return
        for name in names:
            stem = name.removesuffix(".keep")
            if stem != name and STEM.fullmatch(stem):
                self.unkeep(stem)

    def _in_multi_pack_index(self, stem: str) -> bool:
        """Whether a multi-pack index names the pack, or might."""
        names = self._multi_pack_index()
        return names is None or f"{stem}.idx".encode() in names

    def _multi_pack_index(self) -> list[bytes] | None:
        """What the multi-pack index names; None where that cannot be told."""
        try:
            with open(self._folder / _MULTI, "rb") as stream:
                return _pack_names(stream.fileno())
        except FileNotFoundError:
            return None if (self._folder / f"{_MULTI}.d").exists() else []
        except (OSError, ValueError, struct.error):
            return None

    def mend_multi_pack_index(self, gone: Collection[str]) -> None:
        """Remove a multi-pack index that names one of these packs, all removed by us.

        One that was begun before the pack was removed, and came about after: Git, which removes
        it with any pack that it names, takes it for damaged. It can be made again at any time.
        """
        names = {f"{stem}.idx".encode() for stem in gone}
        if not names.isdisjoint(self._multi_pack_index() or ()):
            (self._folder / _MULTI).unlink(missing_ok=True)

    def _path(self, stem: str, suffix: str) -> Path:
        return self._folder / (stem + suffix)


def _pack_names(descriptor: int) -> list[bytes]:
    """The names in the chunk PNAM of a multi-pack index."""
    head = os.pread(descriptor, 12, 0)
    magic, _version, _hash, chunks, _base, _packs = struct.unpack(">4sBBBBI", head)
    if magic != b"MIDX":
        raise ValueError("no multi-pack index")
    table = os.pread(descriptor, (chunks + 1) * 12, 12)
    places = list(struct.iter_unpack(">4sQ", table))
    for (name, start), (_next, end) in pairwise(places):
        if name == b"PNAM" and 0 < end - start <= _NAMES_LIMIT_BYTES:
            return os.pread(descriptor, end - start, start).split(b"\0")
    raise ValueError("a multi-pack index without names")
