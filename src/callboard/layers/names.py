"""Names of layers, attempts and pieces of work: how they are made, and which are refused.

Pure. A name that passes may be a file name on every system; it is told from its twins by `twin`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from callboard.canonical import sha256_hex
from callboard.errors import CallboardError
from callboard.layers.records.base import Id, Key
from callboard.twins import twin
from callboard.visible import visible

__all__ = ["attempt_id", "check_key", "is_id", "new_session_id", "twin"]

MAX_KEY_BYTES = 200
"""A file name has at most 255 bytes, of which endings and temporary names take their part."""

_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$", "clock$"}
    | {f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789"}
)
_TAKEN_ENDINGS = (".receipt",)
"""Receipts lie beside what they are of: `a.receipt.json` belongs to `a`."""

_RANDOM = re.compile(r"[0-9a-f]{8}")


def new_session_id(now_ms: int, goal: str, random: str) -> str:
    """`20260131_101500_<8 hex of the goal>_<8 hex random>`; the time is UTC.

    `random` are 8 hex digits. Raises `time_invalid` for a time outside of the years 1970 to 9999.
    """
    if _RANDOM.fullmatch(random) is None:
        raise ValueError(f"{random!r} is not 8 hex digits")
    if not 0 <= now_ms < 253_402_300_800_000:
        raise CallboardError(
            "time_invalid",
            f"the clock says {now_ms} ms, which is not in the years 1970 to 9999",
            "set the clock of this machine",
        )
    moment = datetime.fromtimestamp(now_ms // 1000, UTC)
    digest = sha256_hex(goal.encode("utf-8", "surrogatepass"))[:8]
    return f"{moment:%Y%m%d_%H%M%S}_{digest}_{random}"


def attempt_id(iteration: int, role: str) -> str:
    """`0001_planner`: unique within a layer, and sorted as the attempts were made."""
    return f"{iteration:04d}_{role}"


def is_id(value: str) -> bool:
    """Whether it has the form of an id that the machine makes."""
    return _fits(value, Id)


def check_key(value: str, field: str) -> str:
    """The key, which an agent chose, or the refusal `key_invalid` (details: `field`).

    Beyond what its type says, a key is at most 200 bytes of UTF-8, holds nothing that cannot be
    seen, and names no device, no receipt and nothing that a file system would shorten.
    """
    if not _fits(value, Key):
        raise _refused(
            value, field, "has blanks, characters that no file name may have, or a bad length"
        )
    size = len(value.encode())
    if size > MAX_KEY_BYTES:
        raise _refused(value, field, f"has {size} bytes of UTF-8, more than {MAX_KEY_BYTES}")
    if visible(value) != value:
        raise _refused(value, field, "has characters that cannot be seen")
    folded = twin(value)
    if not _fits(folded, Key):
        raise _refused(value, field, "has characters that stand for others that are not allowed")
    if folded.endswith("."):
        raise _refused(value, field, "ends in a full stop")
    if folded.partition(".")[0] in _DEVICES:
        raise _refused(value, field, "is the name of a device on some systems")
    if folded.endswith(_TAKEN_ENDINGS):
        raise _refused(value, field, "ends as the name of a receipt does")
    return value


def _fits(value: str, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError:
        return False
    return True


def _refused(value: str, field: str, what: str) -> CallboardError:
    shown = visible(value[:80])
    return CallboardError(
        "key_invalid",
        f"the {field} '{shown}' {what}",
        f"give a {field} of 1 to 100 letters, digits, hyphens or underscores",
        {"field": field},
    )
