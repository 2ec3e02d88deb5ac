"""The frame of every test: a scrubbed environment, Hypothesis profiles, the conformance vectors.

Fixtures that only one part of the suite needs live in that part's own conftest.py.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.ambient import DEEP, scrub, vectors_folder

# No deadline in either: an example's time says more about the machine than about the code.
settings.register_profile(
    "default", derandomize=True, deadline=None, max_examples=40, stateful_step_count=30
)
settings.register_profile(
    "deep", deadline=None, max_examples=2_000, stateful_step_count=60, print_blob=True
)
settings.load_profile("deep" if DEEP else "default")

_home = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Scrub the environment before any test module is imported."""
    home = Path(tempfile.mkdtemp(prefix="callboard-test-home-"))
    config.stash[_home] = home
    scrub(home)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the home folder of this process."""
    shutil.rmtree(config.stash[_home], ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def supervisors() -> Iterator[None]:
    """Collects the supervisors that tests launched from this process, and whose runs have ended."""
    yield
    # Not sooner: the package is imported after its surroundings were scrubbed.
    from callboard.board.execution.hosts.local.host import reap

    reap()


@pytest.fixture(scope="session")
def vectors() -> Path | None:
    """The folder of conformance vectors, or None (see `tests.ambient.vectors_folder`)."""
    return vectors_folder()
