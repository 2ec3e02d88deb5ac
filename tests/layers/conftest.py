"""A folder with nothing in it, reached as the machine reaches it."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.layers.disk import Disk


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    root = tmp_path / "repository"
    root.mkdir()
    return Disk(root)
