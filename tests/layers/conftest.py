"""A folder with nothing in it, reached as the machine reaches it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.layers.disk import Disk


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    root = tmp_path / "repository"
    root.mkdir()
    return Disk(root)


@pytest.fixture(scope="session")
def copied(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Callable[[Disk], object], Disk], None]:
    """Puts into an empty folder what a function makes, which is called once for all tests."""
    made: dict[Callable[[Disk], object], Path] = {}

    def copy(make: Callable[[Disk], object], to: Disk) -> None:
        if make not in made:
            made[make] = tmp_path_factory.mktemp("made")
            make(Disk(made[make]))
        shutil.copytree(made[make], to.root, dirs_exist_ok=True)

    return copy
