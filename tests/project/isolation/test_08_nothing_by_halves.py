"""Condition 8: a change that fails anywhere, at its receipt too, is not there at all.

The failures are the database's own: a trigger of the test refuses a row, as a full disk would.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from callboard.project.project import Project
from tests.project.scenarios import SCENARIOS, WORK
from tests.project.world import World, refused


@contextlib.contextmanager
def refusing(world: World, table: str, verb: str = "INSERT", when: str = "") -> Iterator[None]:
    """As long as it lasts, the database refuses rows of `table`."""
    raw = world.raw()
    raw.execute(
        f"CREATE TRIGGER no_more BEFORE {verb} ON {table} {when} "
        "BEGIN SELECT RAISE(ABORT, 'no more'); END"
    )
    try:
        yield
    finally:
        raw.execute("DROP TRIGGER no_more")
        raw.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_failure_at_the_end_undoes_all(world: World, name: str) -> None:
    call = SCENARIOS[name].prepare(world)
    before, files = world.everything(), files_of(world)
    for table, verb in (("events", "INSERT"), ("receipts", "INSERT"), ("projects", "UPDATE")):
        with refusing(world, table, verb), refused("storage_failed"):
            call.on(world.project, request_id="r1")
        assert world.everything() == before, table
        assert files_of(world) == files, table
    # And the same request is carried out afterwards.
    answer = call.on(world.project, request_id="r1")
    assert answer.project_revision == world.project.info().revision


def files_of(world: World) -> dict[str, bytes]:
    """All files of the project but its database."""
    return {
        str(path.relative_to(world.root)): path.read_bytes()
        for path in world.root.rglob("*")
        if path.is_file() and not path.name.startswith("project.db")
    }


def test_making_a_project_that_is_there_already_undoes_all_too(world: World) -> None:
    (world.root / "work.yaml").write_text(WORK)
    before = world.everything()
    for table, verb in (("events", "INSERT"), ("projects", "UPDATE")):
        with refusing(world, table, verb), refused("storage_failed"):
            Project.init(world.root, accept=True)
        assert world.everything() == before, table


def test_a_takeover_whose_receipt_fails_leaves_the_lapsed_claim(world: World) -> None:
    project = world.project
    project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    second = project.sessions.start("A", "claude").session.id
    world.clock.advance(1000)
    before = world.everything()
    for type in ("claim.expired", "claim.acquired"):
        when = f"WHEN NEW.type = '{type}'"
        with refusing(world, "events", when=when), refused("storage_failed"):
            project.claims.acquire(second)
        assert world.everything() == before
    assert project.claims.acquire(second).claim.fence == 2


def test_a_refused_start_leaves_no_session(world: World) -> None:
    project = world.project
    project.sessions.start("A", "codex", claim=True)
    before = world.everything()
    with refused("claim_held"):
        project.sessions.start("A", "claude", claim=True, request_id="r")
    assert world.everything() == before
