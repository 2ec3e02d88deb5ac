"""The parts every system test starts from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.machines import Machines
from tests.system.world import World, make_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A board whose default recipe is the scripted worker; nothing of it runs on afterwards."""
    made = make_world(tmp_path / "world")
    yield made
    made.end()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Two machines on one board, which lives on a bare remote."""
    made = Machines(tmp_path)
    made.add("two")
    yield made
    made.end()
