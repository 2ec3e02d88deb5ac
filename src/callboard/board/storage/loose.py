"""The bytes of a loose object: made, and taken apart within a limit.

Whether the contents bear the object's name is for the caller to check.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from callboard.board.storage.refusals import io_refused, object_corrupt, object_too_large

_HEADER_BYTES = 64


def header(kind: str, pieces: Sequence[bytes]) -> bytes:
    """What stands before an object's contents, in its file and in what its name is made of."""
    return f"{kind} {sum(map(len, pieces))}\0".encode("ascii")


def read(path: Path, oid: str, limit_bytes: int) -> tuple[str, bytes] | None:
    """Kind and contents of the object file at `path`; None where there is none.

    Raises `CallboardError` `object_corrupt`, `resource_limit` or what `io_refused` makes.
    """
    try:
        with path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size > limit_bytes + limit_bytes // 64 + 4096:
                raise object_too_large(oid, None, limit_bytes)
            raw = stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise io_refused("read the object", path, error) from error
    try:
        return inflate(raw, oid, limit_bytes)
    except (zlib.error, ValueError) as error:
        raise object_corrupt(oid, f"{str(path)!r} is not a whole object") from error


def inflate(raw: bytes, oid: str, limit_bytes: int) -> tuple[str, bytes]:
    """The kind and contents of a loose object; never inflates more than `limit_bytes` + 1."""
    inflater = zlib.decompressobj()
    start = inflater.decompress(raw, _HEADER_BYTES)
    head, separator, body = start.partition(b"\0")
    kind, _, digits = head.partition(b" ")
    if not separator or not digits.isdigit():
        raise ValueError("no object header")
    size = int(digits)
    if size > limit_bytes:
        raise object_too_large(oid, size, limit_bytes)
    body += inflater.decompress(inflater.unconsumed_tail, size - len(body) + 1)
    if len(body) != size or not inflater.eof or inflater.unused_data:
        raise ValueError("not the length it says")
    return kind.decode("ascii"), body
