"""The world of these tests: a copy of one that was made once, as making one takes long."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from callboard.clock import FixedClock
from callboard.project.project import Project
from tests.project.world import NOW_MS, World, make_world


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project that nobody has open."""
    made = make_world(tmp_path_factory.mktemp("template") / "demo")
    made.end()
    return made.root


def copy_of(template: Path, root: Path) -> World:
    """The project of that folder once more, in a folder of its own."""
    shutil.copytree(template, root)
    made = World(root, FixedClock(NOW_MS), cast(Project, None))
    made.project = made.open()
    return made


@pytest.fixture
def world(template: Path, tmp_path: Path) -> Iterator[World]:
    """A project with work in a folder of its own."""
    made = copy_of(template, tmp_path / "demo")
    yield made
    made.end()
