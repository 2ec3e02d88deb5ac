"""Processes that a test made and that are gone when it ends, whatever became of the test."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from callboard.processes.identity import ProcessIdentity, of, state
from tests.waiting import until


@pytest.fixture
def ending() -> Iterator[Callable[[int], ProcessIdentity]]:
    """Take note of a process that this test made; it is killed at the end, if it is still that."""
    known: list[ProcessIdentity] = []

    def note(pid: int) -> ProcessIdentity:
        identity = of(pid)
        assert identity is not None
        known.append(identity)
        return identity

    yield note
    for identity in known:
        _end(identity)


def _end(identity: ProcessIdentity) -> None:
    if state(identity) == "alive":
        os.kill(identity.pid, signal.SIGKILL)
        until(lambda: state(identity) == "dead")
