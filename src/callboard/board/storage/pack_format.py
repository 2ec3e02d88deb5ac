"""The bytes of Git's packs: entries, deltas and indexes, built and taken apart.

Pure functions on bytes: they open nothing and know of no repository. What is malformed raises
`ValueError` (or `zlib.error`), never yields a guess, and nothing is inflated beyond the size that
was declared and allowed.
"""

from __future__ import annotations

import hashlib
import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
NUMBERS = {kind: number for number, kind in KINDS.items()}
OFS_DELTA = 6
REF_DELTA = 7
HEADER_BYTES = 12
_INDEX_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_FANOUT_BYTES = 1024
_LONGEST_COPY = 0xFFFFFF
_LONGEST_INSERT = 127
_LARGE = 0x8000_0000
_SHORTEST_DELTA_BYTES = 4
Bytes = bytes | bytearray | memoryview


class Head(NamedTuple):
    """How an entry begins: type number, size of what it inflates to, where its body begins."""

    number: int
    size: int
    body: int


# --- entries -------------------------------------------------------------------------------------


def pack_header(count: int) -> bytes:
    """The first bytes of a pack of `count` objects."""
    return b"PACK" + struct.pack(">II", 2, count)


def pack_count(data: Bytes) -> int:
    """How many objects the pack that begins with `data` says it holds."""
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"PACK" or version not in (2, 3):
        raise ValueError("not a pack of version 2 or 3")
    return int(count)


def entry_head(number: int, size: int) -> bytes:
    """The type and size that stand before an entry's deflated body."""
    byte = number << 4 | size & 15
    size >>= 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte = size & 0x7F
        size >>= 7
    out.append(byte)
    return bytes(out)


def read_head(data: Bytes, at: int) -> Head:
    """The head of the entry at `at`."""
    byte = data[at]
    number, size, shift = byte >> 4 & 7, byte & 15, 4
    while byte & 0x80:
        at += 1
        byte = data[at]
        size |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63:
            raise ValueError("an entry without a size")
    return Head(number, size, at + 1)


def read_offset(data: Bytes, at: int) -> tuple[int, int]:
    """How far before its own entry an offset delta's base begins, and where the body begins."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = (value + 1) << 7 | byte & 0x7F
        if value > 1 << 62:
            raise ValueError("a delta without a base")
    return value, at + 1


def entry(kind: str, data: bytes, level: int = 1) -> bytes:
    """A whole entry for an object of any kind."""
    return entry_head(NUMBERS[kind], len(data)) + zlib.compress(data, level)


def ref_delta_entry(base: bytes, delta: bytes) -> bytes:
    """An entry that is `delta` against the object named `base` in the same pack.

    Not for an empty object: Git takes no delta as short as that one's.
    """
    if len(delta) < _SHORTEST_DELTA_BYTES:
        raise ValueError("a delta that Git refuses")
    body = _stored(delta) if len(delta) <= 64 else zlib.compress(delta, 1)
    return entry_head(REF_DELTA, len(delta)) + base + body


def _stored(data: bytes) -> bytes:
    """A zlib stream of so few bytes that deflating them gains nothing and costs time."""
    size = len(data)
    return b"\x78\x01\x01" + struct.pack("<HH", size, size ^ 0xFFFF) + data + struct.pack(
        ">I", zlib.adler32(data)
    )  # fmt: skip


def inflate(data: Bytes, at: int, size: int) -> bytes:
    """The `size` bytes that the zlib stream at `at` holds; never inflates more than one beyond."""
    # What deflating bytes that cannot be deflated makes of them at most.
    most = size + size // 1000 + 64
    inflater = zlib.decompressobj()
    found = inflater.decompress(memoryview(data)[at : at + most], size + 1)
    if len(found) == size and not inflater.eof:
        # Writers may spread the end over more bytes than that, as empty blocks.
        rest = memoryview(data)[at + most : at + most + 65_536]
        found += inflater.decompress(inflater.unconsumed_tail, 1)
        found += inflater.decompress(rest, 1)
    if len(found) != size or not inflater.eof:
        raise ValueError("an entry that is not the length it says")
    return found


# --- deltas --------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """A size as deltas write it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: Bytes, at: int) -> tuple[int, int]:
    """A size as deltas write it, and where the next thing begins."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a delta without sizes")


def copy(start: int, size: int) -> bytes:
    """Instructions to copy `size` bytes of the base from `start` on."""
    out = bytearray()
    while size:
        part = min(size, _LONGEST_COPY)
        code = len(out)
        out.append(0x80)
        for bit, byte in enumerate(start.to_bytes(4, "little") + part.to_bytes(3, "little")):
            if byte:
                out[code] |= 1 << bit
                out.append(byte)
        start += part
        size -= part
    return bytes(out)


def insert(data: bytes) -> bytes:
    """Instructions to put `data` itself."""
    out = bytearray()
    for start in range(0, len(data), _LONGEST_INSERT):
        part = data[start : start + _LONGEST_INSERT]
        out.append(len(part))
        out += part
    return bytes(out)


def prefix_delta(base_size: int, shared: int, rest: bytes) -> bytes:
    """The delta for the first `shared` bytes of the base, followed by `rest`."""
    sizes = varint(base_size) + varint(shared + len(rest))
    return sizes + copy(0, shared) + insert(rest)


def delta_between(base: bytes, target: bytes) -> bytes:
    """The delta for a target that differs from the base in one place: common ends are copied."""
    most = min(len(base), len(target))
    head = _common(base, target, most)
    tail = _common(base[::-1], target[::-1], most - head)
    middle = target[head : len(target) - tail]
    sizes = varint(len(base)) + varint(len(target))
    return sizes + copy(0, head) + insert(middle) + copy(len(base) - tail, tail)


def _common(one: bytes, other: bytes, most: int) -> int:
    """How many of the first `most` bytes are the same, found by halving."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def delta_sizes(delta: Bytes) -> tuple[int, int, int]:
    """The sizes of base and result that a delta declares, and where its instructions begin."""
    base, at = read_varint(delta, 0)
    result, at = read_varint(delta, at)
    return base, result, at


def apply_delta(base: Bytes, delta: bytes) -> bytes:
    """What `delta` makes of `base`; never builds more than the size it declares."""
    base_size, size, at = delta_sizes(delta)
    if base_size != len(base):
        raise ValueError("a delta against another base")
    source, built, parts = memoryview(base), 0, []
    while at < len(delta):
        code = delta[at]
        at += 1
        part: bytes | memoryview
        if code & 0x80:
            start, count, at = _copied(delta, code, at)
            part = source[start : start + count]
        else:
            count = code
            part = delta[at : at + count]
            at += count
        built += count
        if count == 0 or len(part) != count or built > size:
            raise ValueError("a delta that does not fit its base")
        parts.append(part)
    if built != size:
        raise ValueError("a delta that is not the length it says")
    return b"".join(parts)


def _copied(delta: bytes, code: int, at: int) -> tuple[int, int, int]:
    """Start and size of a copy, and where the next instruction begins."""
    values = 0
    for bit in range(7):
        if code & 1 << bit:
            values |= delta[at] << bit * 8
            at += 1
    return values & 0xFFFFFFFF, values >> 32 or 0x10000, at


def read_prefix_delta(delta: bytes) -> tuple[int, bytes]:
    """The two parts that `prefix_delta` was given; `ValueError` for any other delta."""
    base_size, size, at = delta_sizes(delta)
    shared, rest = 0, bytearray()
    while at < len(delta):
        code = delta[at]
        at += 1
        if code & 0x80:
            start, count, at = _copied(delta, code, at)
            if start != shared or rest:
                raise ValueError("a delta that is more than a beginning")
            shared += count
        else:
            rest += delta[at : at + code]
            at += code
    if shared > base_size or shared + len(rest) != size:
        raise ValueError("a delta that does not fit its base")
    return shared, bytes(rest)


# --- indexes -------------------------------------------------------------------------------------


class Tables(NamedTuple):
    """The columns of an index of version 2, in the order of the names."""

    oids: bytes
    crcs: Sequence[int]
    offsets: Sequence[int]


def row(oid: bytes, offset: int, crc: int) -> bytes:
    """One object of an index: its name, its entry's CRC-32, and where that begins in the pack.

    One string of bytes, so that thousands are sorted and written without a look into any.
    """
    return oid + struct.pack(">II", crc, offset)


def row_oid(packed: bytes) -> bytes:
    """The object's name in a row."""
    return packed[:-8]


def row_offset(packed: bytes) -> int:
    """Where the entry of a row begins."""
    return int.from_bytes(packed[-4:], "big")


def index_bytes(rows: Sequence[bytes], pack_digest: bytes, algorithm: str) -> bytes:
    """The index, version 2, of a pack under 2 GiB whose rows are sorted."""
    fanout = b"".join(
        struct.pack(">I", len(rows) if first == 255 else bisect_left(rows, bytes([first + 1])))
        for first in range(256)
    )
    words = array("I", b"".join(rows))
    width = len(pack_digest) // 4
    oids = array("I", bytes(4 * width * len(rows)))
    for column in range(width):
        oids[column::width] = words[column :: width + 2]
    crcs, offsets = words[width :: width + 2], words[width + 1 :: width + 2]
    body = b"".join((_INDEX_MAGIC, fanout, oids, crcs, offsets, pack_digest))
    return body + digest(algorithm, (body,))


def read_index(data: bytes, pack_digest: bytes, algorithm: str) -> Tables:
    """The columns of an index that belongs to the pack of that digest and is intact."""
    width = len(pack_digest)
    if data[:8] != _INDEX_MAGIC or len(data) < 8 + _FANOUT_BYTES + 2 * width:
        raise ValueError("not an index of version 2")
    count = int.from_bytes(data[8 + _FANOUT_BYTES - 4 : 8 + _FANOUT_BYTES], "big")
    oids = 8 + _FANOUT_BYTES
    crcs = oids + count * width
    offsets = crcs + count * 4
    end = offsets + count * 4
    if len(data) != end + 2 * width or data[end : end + width] != pack_digest:
        raise ValueError("the index of another pack")
    if digest(algorithm, (memoryview(data)[:-width],)) != data[-width:]:
        raise ValueError("a damaged index")
    tables = Tables(
        data[oids:crcs],
        _from_big_endian(data[crcs:offsets]),
        _from_big_endian(data[offsets:end]),
    )
    if count and max(tables.offsets) >= _LARGE:
        raise ValueError("a pack of 2 GiB or more")
    return tables


def index_names(data: bytes, width: int) -> set[bytes]:
    """The object names in an index of version 2."""
    count = int.from_bytes(data[8 + _FANOUT_BYTES - 4 : 8 + _FANOUT_BYTES], "big")
    start = 8 + _FANOUT_BYTES
    if data[:8] != _INDEX_MAGIC or len(data) < start + count * (width + 8) + 2 * width:
        raise ValueError("not an index of version 2")
    return {data[at : at + width] for at in range(start, start + count * width, width)}


def digest(algorithm: str, pieces: Iterable[Bytes]) -> bytes:
    """The digest of the pieces joined, by the repository's `sha1` or `sha256`."""
    made = hashlib.new(algorithm, usedforsecurity=False)
    for piece in pieces:
        made.update(piece)
    return made.digest()


def _from_big_endian(data: bytes) -> array[int]:
    values = array("I", data)
    if sys.byteorder == "little":
        values.byteswap()
    return values
