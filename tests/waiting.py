"""Waiting for what another process does: a condition and a deadline, never a guessed pause."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], *, timeout_s: float = 30.0) -> T:
    """The first true answer of `condition`."""
    deadline = time.monotonic() + timeout_s
    pause = Event()
    while not (answer := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"{condition} did not come true in {timeout_s} s")
        pause.wait(0.01)
    return answer
