"""The stores that the contract is tried on; each test runs on all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.contract.stores import STORES, Opened


@pytest.fixture(params=sorted(STORES))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """An empty project with the work of `tests.project.world`, in one kind of store."""
    made = STORES[request.param](tmp_path / "demo")
    yield made
    made.end()
