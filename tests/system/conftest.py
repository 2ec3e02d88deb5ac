"""The parts every system test starts from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.world import World, make_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A board whose default recipe is the scripted worker; nothing of it runs on afterwards."""
    made = make_world(tmp_path / "world")
    yield made
    made.end()
