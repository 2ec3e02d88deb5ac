"""What tests of faults share: the program that makes processes which die."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.project.faults.dying import Dying


@pytest.fixture(scope="session")
def dying() -> Iterator[Dying]:
    """One for all tests; it has loaded the package."""
    made = Dying()
    yield made
    made.end()
