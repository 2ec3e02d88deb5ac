"""Parts that tests of execution share: git, a repository, and processes that do not stay."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callboard.board.execution.git import Git
from callboard.board.execution.hosts.local import members
from callboard.board.execution.hosts.local.identity import ProcessIdentity, of, state
from callboard.board.execution.hosts.local.registry import new_run_id
from callboard.board.execution.workspace import Workspace, create
from tests.board.execution import repositories
from tests.board.execution.hosts.field import Ground, ground
from tests.board.execution.waiting import until


@pytest.fixture
def git() -> Git:
    return Git(os.environ["PATH"])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The folder of a user's repository."""
    return repositories.repository(tmp_path / "user")


@pytest.fixture
def ending() -> Iterator[Callable[[int], ProcessIdentity]]:
    """Take note of a process that this test made; it is killed at the end, if it is still that."""
    known: list[ProcessIdentity] = []

    def note(pid: int) -> ProcessIdentity:
        identity = of(pid)
        assert identity is not None
        known.append(identity)
        return identity

    yield note
    for identity in known:
        _end(identity)


def _end(identity: ProcessIdentity) -> None:
    if state(identity) == "alive":
        os.kill(identity.pid, signal.SIGKILL)
        until(lambda: state(identity) == "dead")


@pytest.fixture
def run_id() -> Iterator[str]:
    """A run id of which nothing is left alive when the test ends."""
    run_id = new_run_id()
    yield run_id
    for facts in members.marked(run_id, members.everyone()):
        members.send(facts, signal.SIGKILL)


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
