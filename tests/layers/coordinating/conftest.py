"""A small disk of its own, where the system gives one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.layers.coordinating.full_disk import FullDisk
from tests.system.mounts import mount, own_mounts, unmount


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FullDisk]:
    if not own_mounts():
        pytest.skip("needs a user namespace of its own, which this system does not give")
    place = tmp_path / "disk"
    place.mkdir()
    assert mount("-t", "tmpfs", "-o", "size=16M", "layers", str(place))
    try:
        yield FullDisk(place)
    finally:
        unmount(place)
