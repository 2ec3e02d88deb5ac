"""Time as an injected value.

Storage, publishing, execution and surfaces hold a clock; the functional core takes Unix
milliseconds as an argument and never asks for the time itself.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Answers the present time in Unix milliseconds."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class FixedClock:
    """A clock that stands until it is told to move; for tests."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> None:
        """Move the clock by `ms` milliseconds, which may be negative."""
        self._now_ms += ms


def utc_text(at_ms: int) -> str:
    """Unix ms as the time in UTC, the same on every machine: `2023-11-14 22:13:20 UTC`."""
    try:
        moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
