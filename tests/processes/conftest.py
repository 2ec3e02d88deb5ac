"""Parts that tests of processes share: none that they start stays."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator

import pytest

from callboard.processes import members
from tests.ended import ending

__all__ = ["ending"]


@pytest.fixture
def run_id() -> Iterator[str]:
    """A run id of which nothing is left alive when the test ends."""
    run_id = f"run_{secrets.token_hex(16)}"
    yield run_id
    for facts in members.marked(run_id, members.everyone()):
        members.send(facts, signal.SIGKILL)
