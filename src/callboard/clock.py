"""Time as an injected value.

Storage, publishing, execution and surfaces hold a clock; the functional core takes Unix
milliseconds as an argument and never asks for the time itself.
"""

from __future__ import annotations

import time
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
