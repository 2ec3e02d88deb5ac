"""What the acceptance tests start from: the suite's own boards, people and machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.batch import Batch, play_six
from tests.acceptance.desk import Desk
from tests.board.execution.hosts.field import Ground, ground
from tests.surfaces.cli.conftest import person, stranger
from tests.system.conftest import machines, world

__all__ = ["batch", "desk", "field_ground", "machines", "person", "stranger", "world"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """An empty repository with one worker, whose users each have a clock of their own."""
    made = Desk(tmp_path)
    yield made
    made.close()


@pytest.fixture
def field_ground(tmp_path: Path) -> Iterator[Ground]:
    """A repository for boards with a simulated host."""
    made = ground(tmp_path)
    yield made
    made.repository.close()


@pytest.fixture(scope="session")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Batch]:
    """A board after a run for six tasks that ended in as many ways."""
    made = play_six(tmp_path_factory.mktemp("batch"))
    yield made
    made.world.end()
