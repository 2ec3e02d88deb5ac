"""Real repositories, plain and sha256, opened for the time of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.board.storage.repository import Repository
from tests.board.outputs import scene


@pytest.fixture(params=["sha1", "sha256"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return scene.make_repository(tmp_path / "user", request.param)


@pytest.fixture
def repository(folder: Path) -> Iterator[Repository]:
    with Repository.discover(folder) as opened:
        yield opened
