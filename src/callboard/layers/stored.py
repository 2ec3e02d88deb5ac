"""Records in files: read whole and valid or refused as damage, and never larger than can be read.

It knows no layer. What it refuses it neither mends nor replaces by a guess, and it never looks at
a temporary file beside the published one.
"""

from __future__ import annotations

from typing import TypeVar

from callboard.errors import CallboardError
from callboard.layers.disk import OF_MACHINE, Disk
from callboard.layers.records.base import MAX_RECORD_BYTES, Record, encode
from callboard.layers.records.base import read as read_bytes
from callboard.visible import visible

R = TypeVar("R", bound=Record)

_DAMAGE = frozenset(
    {"file_missing", "file_not_regular", "path_invalid", "record_invalid", "resource_limit"}
)


def read_record(disk: Disk, place: str, kind: type[R], *, limit_bytes: int = MAX_RECORD_BYTES) -> R:
    """The record that the machine published at `place`.

    Raises `layer_corrupt` (details: `file`, `what`, and `pointer` of a field) where the file is
    missing, is no plain file or says something else than such a record.
    """
    return parse_record(read_file(disk, place, limit_bytes), kind, place, limit_bytes)


def read_file(disk: Disk, place: str, limit_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """The bytes of a file that has to be there; `layer_corrupt` where it is not."""
    try:
        return disk.read(place, limit_bytes, what="the file")
    except CallboardError as error:
        if error.code in _DAMAGE:
            raise corrupt(place, _plain(error), error) from error
        raise


def parse_record(data: bytes, kind: type[R], place: str, limit_bytes: int = MAX_RECORD_BYTES) -> R:
    """The record in bytes that were read from `place`; `layer_corrupt` where they hold none."""
    try:
        return read_bytes(data, kind, "it", limit_bytes=limit_bytes)
    except CallboardError as error:
        if error.code in _DAMAGE:
            raise corrupt(place, _plain(error, data), error) from error
        raise


def _plain(error: CallboardError, data: bytes | None = None) -> str:
    if error.code == "file_missing":
        return "it does not exist"
    if data == b"":
        return "it is empty"
    if data is not None and not data.strip(b"\0"):
        return f"it holds nothing but {len(data)} zero bytes"
    return error.message


def holds(disk: Disk, place: str, data: bytes) -> bool:
    """Whether a plain file at `place` has exactly these bytes; a code `OF_MACHINE` is raised."""
    try:
        return disk.read(place, len(data)) == data
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
        return False


def corrupt(place: str, what: str, cause: CallboardError | None = None) -> CallboardError:
    """The refusal of a damaged file."""
    extra = {} if cause is None else cause.details
    return CallboardError(
        "layer_corrupt",
        f"{visible(place)}: {what}",
        "run `callboard layers check` for all that is wrong; restore the file from a backup",
        {**extra, "file": place, "what": what},
    )


def bounded(place: str, record: Record, limit_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """The record's bytes, unless they are more than will be read again: `resource_limit`."""
    data = encode(record)
    if len(data) > limit_bytes:
        raise CallboardError(
            "resource_limit",
            f"{place} would have {len(data)} bytes, more than {limit_bytes} are ever read",
            "shorten what it is made from: texts, lists, or the files that they come from",
            {"file": place, "bytes": len(data), "limit_bytes": limit_bytes},
        )
    return data
