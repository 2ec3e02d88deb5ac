"""Reading packed and borrowed objects.

Read only, and bounded: every size is declared before it is built, and refused there. Faults of a
pack come out as the package's own refusals. Packs come and go at any moment, by Git's maintenance
and by every append; an object that is not found is looked for once more among the packs that are
there by then.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from callboard.board.storage import loose
from callboard.board.storage import pack_format as fmt
from callboard.board.storage.refusals import (
    io_refused,
    object_corrupt,
    object_missing,
    object_too_large,
)
from callboard.board.storage.vanishing import retried

_MAX_BORROWED = 64
_MAX_OPEN = 32
_MOST_LOOKS = 100
_MAX_CHAIN = 4096
# What an object may be built from, beyond what is asked for: a small object may be a delta against
# a whole ledger. All that is held at once for one answer stays under twice this and the answer.
_MAX_BASE_BYTES = 128 * 1024 * 1024
_UNREADABLE = (zlib.error, struct.error, ValueError, IndexError)


class Packs:
    """The packs of `folder` (a repository's `objects`), and all objects of those it borrows from.

    Not thread-safe. `width` is the length of a raw object name in bytes.
    """

    def __init__(self, folder: Path, width: int) -> None:
        self._folder = folder
        self._width = width
        self._borrowed = _borrowed_folders(folder)
        self._packs: dict[Path, _Pack] = {}

    def close(self) -> None:
        """Close the open pack files."""
        for pack in self._packs.values():
            pack.close()
        self._packs.clear()

    def holds(self, oid: str) -> bool:
        """Whether the object can be found."""
        if self._find(oid) is not None:
            return True
        return any(path.exists() for path in self._loose(oid))

    def read(self, oid: str, limit_bytes: int) -> tuple[str, bytes]:
        """The object's kind and contents, at most `limit_bytes` of them.

        Raises `CallboardError` `object_missing`, `object_corrupt` or `resource_limit`.
        """
        answer = self._read_packed(oid, limit_bytes)
        if answer is not None:
            return answer
        for path in self._loose(oid):
            answer = loose.read(path, oid, limit_bytes)
            if answer is not None:
                return answer
        raise object_missing(oid)

    def _read_packed(self, oid: str, limit_bytes: int) -> tuple[str, bytes] | None:
        try:
            # A pack may be removed between the look into its index and its opening.
            return retried(lambda: self._attempt(oid, limit_bytes))
        except OSError as error:
            raise io_refused("read the packs of", self._folder, error) from error

    def _attempt(self, oid: str, limit_bytes: int) -> tuple[str, bytes] | None:
        found = self._find(oid)
        if found is None:
            return None
        pack, offset = found
        try:
            return pack.read(oid, offset, limit_bytes)
        except FileNotFoundError:
            self._drop(pack)
            raise
        except _UNREADABLE as error:
            # Without the frames, which would keep the pack's mapping from being closed.
            cause = error.with_traceback(None)
            raise object_corrupt(oid, f"its pack {pack.path.name!r} cannot be read") from cause

    def _find(self, oid: str) -> tuple[_Pack, int] | None:
        name = bytes.fromhex(oid)
        found = self._among_known(name)
        looks = 0
        while found is None and looks < _MOST_LOOKS:
            try:
                settled = retried(self._look_again)
            except OSError as error:
                raise io_refused("open the packs of", self._folder, error) from error
            found = self._among_known(name)
            # Where a pack went before it was opened, another came that the look may have missed.
            looks = _MOST_LOOKS if settled else looks + 1
        if found is not None:
            self._limit_open(found[0])
        return found

    def _among_known(self, name: bytes) -> tuple[_Pack, int] | None:
        for pack in reversed(self._packs.values()):
            offset = pack.index.find(name)
            if offset is not None:
                return pack, offset
        return None

    def _look_again(self) -> bool:
        """Open the packs that are there now; False where one of them went meanwhile."""
        settled = True
        present = set()
        for folder in (self._folder, *self._borrowed):
            try:
                names = os.listdir(folder / "pack")
            except (FileNotFoundError, NotADirectoryError):
                continue
            present |= {folder / "pack" / name for name in names if name.endswith(".idx")}
        for path in self._packs.keys() - present:
            self._drop(self._packs[path])
        for path in sorted(present - self._packs.keys()):
            try:
                self._packs[path] = _Pack(path, self._width)
            except FileNotFoundError:
                # What it held is in another one now.
                settled = False
            except _UNREADABLE:
                # As for Git itself, an index that is none hides the pack and nothing else.
                continue
        return settled

    def _drop(self, pack: _Pack) -> None:
        pack.close()
        self._packs.pop(pack.path, None)

    def _limit_open(self, used: _Pack) -> None:
        """Close the files of packs not used lately, once too many are open."""
        self._packs[used.path] = self._packs.pop(used.path)
        opened = [pack for pack in self._packs.values() if pack.is_open]
        for pack in opened[:-_MAX_OPEN]:
            if pack is not used:
                pack.close_data()

    def _loose(self, oid: str) -> Iterator[Path]:
        return (folder / oid[:2] / oid[2:] for folder in self._borrowed)


class _Index:
    """An index of version 1 or 2 as a mapped file."""

    def __init__(self, path: Path, width: int) -> None:
        self._width = width
        self._map = _mapped(path)
        data = self._map
        self._second = data[:4] == b"\xfftOc"
        if self._second and data[4:8] != b"\0\0\0\2":
            self._map.close()
            raise ValueError("an index of an unknown version")
        self._fanout = 8 if self._second else 0
        self._start = self._fanout + 1024
        self._stride, self._skip = (width, 0) if self._second else (width + 4, 4)
        self._count = self._upto(255) if len(data) >= self._start else -1
        needed = self._start + self._count * (width + 8 if self._second else width + 4) + 2 * width
        if self._count < 0 or len(data) < needed:
            self._map.close()
            raise ValueError("an index that is too short")

    def _upto(self, first: int) -> int:
        at = self._fanout + first * 4
        return int.from_bytes(self._map[at : at + 4], "big")

    def find(self, name: bytes) -> int | None:
        """Where the object's entry begins in the pack; None where it is not in it."""
        low = self._upto(name[0] - 1) if name[0] else 0
        high = min(self._upto(name[0]), self._count)
        while low < high:
            middle = (low + high) // 2
            at = self._start + middle * self._stride + self._skip
            found = self._map[at : at + self._width]
            if found == name:
                return self._offset(middle)
            if found < name:
                low = middle + 1
            else:
                high = middle
        return None

    def _offset(self, row: int) -> int:
        if not self._second:
            return self._number(self._start + row * self._stride, 4)
        offsets = self._start + self._count * (self._width + 4)
        value = self._number(offsets + row * 4, 4)
        if value < 0x8000_0000:
            return value
        return self._number(offsets + self._count * 4 + (value & 0x7FFF_FFFF) * 8, 8)

    def _number(self, at: int, size: int) -> int:
        return int.from_bytes(self._map[at : at + size], "big")

    def close(self) -> None:
        self._map.close()


class _Pack:
    """One pack by the path of its index; the pack itself is opened when first read."""

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self._width = width
        self.index = _Index(path, width)
        self._data: mmap.mmap | None = None

    @property
    def is_open(self) -> bool:
        return self._data is not None

    def close(self) -> None:
        self.index.close()
        self.close_data()

    def close_data(self) -> None:
        if self._data is not None:
            self._data.close()
            self._data = None

    def read(self, oid: str, offset: int, limit_bytes: int) -> tuple[str, bytes]:
        """The object at `offset`; raises `ValueError` and the like for what is no whole object."""
        if self._data is None:
            self._data = _mapped(self.path.with_suffix(".pack"))
            fmt.pack_count(self._data[: fmt.HEADER_BYTES])
        with memoryview(self._data) as whole, whole[: len(whole) - self._width] as data:
            number, deltas, head = self._chain(data, oid, offset, limit_bytes)
            if number not in fmt.KINDS:
                raise ValueError("an entry of an unknown type")
            content = fmt.inflate(data, head.body, head.size)
        while deltas:
            content = fmt.apply_delta(content, deltas.pop())
        return fmt.KINDS[number], content

    def _chain(
        self, data: memoryview, oid: str, offset: int, limit_bytes: int
    ) -> tuple[int, list[bytes], fmt.Head]:
        """Type and head of what lies beneath, and the deltas on it, the outermost first."""
        deltas: list[bytes] = []
        wanted: int | None = None
        held = 0
        while True:
            head = fmt.read_head(data, offset)
            if head.number not in (fmt.OFS_DELTA, fmt.REF_DELTA):
                _check_size(oid, head.size, limit_bytes, wanted)
                return head.number, deltas, head
            below, body = self._base(data, offset, head)
            held += head.size
            if held > limit_bytes + _MAX_BASE_BYTES:
                raise object_too_large(oid, None, limit_bytes)
            delta = fmt.inflate(data, body, head.size)
            base_size, size, _ = fmt.delta_sizes(delta)
            _check_size(oid, size, limit_bytes, wanted)
            deltas.append(delta)
            if len(deltas) > _MAX_CHAIN:
                raise ValueError("a chain of deltas without end")
            offset, wanted = below, base_size

    def _base(self, data: memoryview, offset: int, head: fmt.Head) -> tuple[int, int]:
        """Where a delta's base begins, and where its own body does."""
        if head.number == fmt.OFS_DELTA:
            before, body = fmt.read_offset(data, head.body)
            if not 0 < before <= offset - fmt.HEADER_BYTES:
                raise ValueError("a delta against nothing")
            return offset - before, body
        body = head.body + self._width
        found = self.index.find(bytes(data[head.body : body]))
        if found is None:
            raise ValueError("a delta whose base is not in its pack")
        return found, body


def _check_size(oid: str, size: int, limit_bytes: int, wanted: int | None) -> None:
    """Refuse what is declared to be larger than allowed, or other than the delta on it says."""
    if wanted is None:
        if size > limit_bytes:
            raise object_too_large(oid, size, limit_bytes)
    elif size != wanted:
        raise ValueError("a delta against another base")
    elif size > max(limit_bytes, _MAX_BASE_BYTES):
        raise object_too_large(oid, None, limit_bytes)


def _mapped(path: Path) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a regular file")
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)


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
