"""A zlib stream that grows with what it holds: what was deflated once is never deflated again.

Behind a flush, deflated data is whole blocks that end on a byte, so more blocks may follow at any
later time. Only the open end, some tens of KiB, is deflated anew with each addition, as one block
with what comes before it for a dictionary; so a stream that grew line by line is as small, and as
quick to inflate, as one made at once.

Pure; the contents themselves stay with the caller and are handed in.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

_HEADER = b"\x78\x01"
_END = b"\x03\x00"
_WINDOW_BYTES = 32 * 1024
_OPEN_BYTES = 64 * 1024
# The open end is deflated again and again, quickly; what is closed is kept, and made small.
_OPEN_LEVEL = 1
_CLOSED_LEVEL = 6
_WHOLE_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Growing:
    """The stream of some contents of `size` bytes.

    `closed` holds the first `closed_bytes` of them in whole blocks, `opened` the rest in blocks of
    which the last ends the stream; `adler` is the checksum that follows.
    """

    closed: bytes
    closed_bytes: int
    opened: bytes
    size: int
    adler: int

    @property
    def pieces(self) -> Sequence[bytes]:
        """The zlib stream, to be joined."""
        return self.closed, self.opened, struct.pack(">I", self.adler)


def start(data: bytes) -> Growing:
    """The stream of `data`."""
    if len(data) <= _OPEN_BYTES:
        return _ended(_HEADER, 0, data, data, zlib.adler32(data))
    deflater = zlib.compressobj(_WHOLE_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    closed = _HEADER + deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH)
    return Growing(closed, len(data), _END, len(data), zlib.adler32(data))


def extend(stream: Growing, data: bytes) -> Growing:
    """The stream of `data`, which begins with what `stream` holds."""
    added = memoryview(data)[stream.size :]
    adler = zlib.adler32(added, stream.adler)
    rest = data[stream.closed_bytes :]
    if len(rest) <= _OPEN_BYTES:
        return _ended(stream.closed, stream.closed_bytes, rest, data, adler)
    deflater = _deflater(data, stream.closed_bytes, _CLOSED_LEVEL)
    blocks = deflater.compress(rest) + deflater.flush(zlib.Z_SYNC_FLUSH)
    return Growing(stream.closed + blocks, len(data), _END, len(data), adler)


def resume(
    pieces: bytes, closed: int, closed_bytes: int, data: bytes, known: Growing | None
) -> Growing | None:
    """The stream `pieces` of `data`, to be extended; None where it is anything else.

    `closed` and `closed_bytes` say where its closed part is thought to end; they are checked.
    `known` is a stream of a beginning of `data`: what both have in common is not inflated again.
    """
    if not len(_HEADER) <= closed <= len(pieces) - 4 or not 0 <= closed_bytes <= len(data):
        return None
    begin, held = len(_HEADER), 0
    if (
        known is not None
        and known.closed_bytes <= closed_bytes
        and len(known.closed) <= closed
        and pieces.startswith(known.closed)
    ):
        begin, held = len(known.closed), known.closed_bytes
    if begin == len(_HEADER) and pieces[:begin] != _HEADER:
        return None
    view = memoryview(pieces)
    inflater = _inflater(data, held)
    try:
        found = inflater.decompress(view[begin:closed], closed_bytes - held + 1)
        if len(found) != closed_bytes - held or not data.startswith(found, held):
            return None
        # Only between two blocks, and on a byte, does this end the stream.
        probe = inflater.copy()
        if inflater.eof or probe.decompress(_END) or not probe.eof:
            return None
        found = inflater.decompress(view[closed:-4], len(data) - closed_bytes + 1)
    except zlib.error:
        return None
    if len(found) != len(data) - closed_bytes or not data.startswith(found, closed_bytes):
        return None
    adler = int.from_bytes(pieces[-4:], "big")
    if not inflater.eof or inflater.unused_data or adler != zlib.adler32(data):
        return None
    return Growing(pieces[:closed], closed_bytes, pieces[closed:-4], len(data), adler)


def _ended(closed: bytes, closed_bytes: int, rest: bytes, data: bytes, adler: int) -> Growing:
    deflater = _deflater(data, closed_bytes, _OPEN_LEVEL)
    opened = deflater.compress(rest) + deflater.flush()
    return Growing(closed, closed_bytes, opened, len(data), adler)


def _window(data: bytes, at: int) -> bytes:
    return data[max(0, at - _WINDOW_BYTES) : at]


def _deflater(data: bytes, at: int, level: int) -> zlib._Compress:
    window = _window(data, at)
    if not window:
        return zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=window)


def _inflater(data: bytes, at: int) -> zlib._Decompress:
    window = _window(data, at)
    if not window:
        return zlib.decompressobj(-zlib.MAX_WBITS)
    return zlib.decompressobj(-zlib.MAX_WBITS, zdict=window)
