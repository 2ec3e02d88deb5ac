"""A process that has the project open twice: what it writes is never taken away by others.

Locks on a file belong to the process, and to close the file anywhere in it drops them all. Then
whoever closes last elsewhere takes the log away, and what is written afterwards goes nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.project.project import Project
from tests.project.world import World

ACTS: dict[str, Callable[[Path], object]] = {
    "open": lambda root: Project.open(root).close(),
    "read_only": lambda root: Project.open(root, read_only=True).close(),
    "create": lambda root: Project.create(root, key="demo").close(),
    "diagnose": Project.diagnose,
    "init": lambda root: Project.init(root),
}


@pytest.mark.parametrize("act", ACTS)
def test_no_second_use_in_the_process_loosens_the_first_one(world: World, act: str) -> None:
    (world.root / "work.yaml").write_text("work_items: []\n")
    world.project.branches.create("before")
    ACTS[act](world.root)
    peer = world.peer()
    assert "answer" in peer.ask("open")
    peer.ask("close")
    log = world.file.with_name("project.db-wal")
    assert log.exists(), "the peer took the log away"
    made = world.project.branches.create("after")
    found = world.peer().ask("branches.list")["answer"]
    assert found["project_revision"] == made.project_revision
    assert [one["name"] for one in found["branches"]] == ["main", "before", "after"]


def test_each_of_them_would_show_it(world: World) -> None:
    """The test above is worth something: opening the file as such does loosen it."""
    world.project.branches.create("before")
    world.file.open("rb").close()
    peer = world.peer()
    peer.ask("open")
    peer.ask("close")
    assert not world.file.with_name("project.db-wal").exists()
