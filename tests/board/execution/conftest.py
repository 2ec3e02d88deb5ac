"""Parts that tests of execution share: git, a repository, and processes that do not stay."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.board.execution.workspace import Workspace, create
from callboard.git import Git
from tests import repositories
from tests.board.execution.hosts.field import Ground, ground
from tests.ended import ending

__all__ = ["ending"]


@pytest.fixture
def git() -> Git:
    return Git(os.environ["PATH"])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The folder of a user's repository."""
    return repositories.repository(tmp_path / "user")


@pytest.fixture
def workspace(git: Git, source: Path, tmp_path: Path) -> Workspace:
    """A private clone of `source` at its HEAD."""
    return create(git, source / ".git", repositories.head(source), tmp_path / "run")


@pytest.fixture(scope="module")
def field_ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """What the fields of a module stand on."""
    made = ground(tmp_path_factory.mktemp("ground"))
    yield made
    made.repository.close()
