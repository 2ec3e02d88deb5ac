"""The parts every test of a project starts from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.world import World, make_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A project with work in a folder of its own."""
    made = make_world(tmp_path / "demo")
    yield made
    made.end()
