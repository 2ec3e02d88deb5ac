"""Condition 8: a change that fails anywhere, at its receipt too, is not there at all.

The failures are the database's own: a trigger of the test refuses a row, as a full disk would.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callboard.project.project import Project
from tests.project import indexing
from tests.project.world import ITEMS, World, refused


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


OPERATIONS: dict[str, Callable[[Project, str], Any]] = {
    "start": lambda p, s: p.sessions.start("B", "codex", claim=True, request_id="r"),
    "checkpoint": lambda p, s: p.sessions.checkpoint(s, "half", "on", request_id="r"),
    "interrupt": lambda p, s: p.sessions.interrupt(s, request_id="r"),
    "end": lambda p, s: p.sessions.end(s, request_id="r"),
    "handoff": lambda p, s: p.sessions.handoff(s, "claude", request_id="r"),
    "resume": lambda p, s: p.sessions.resume(s, "claude", request_id="r"),
    "renew": lambda p, s: p.claims.renew(s, 9000, request_id="r"),
    "release": lambda p, s: p.claims.release(s, request_id="r"),
    "append": lambda p, s: p.events.append("note.taken", {}, session=s, request_id="r"),
    "evidence": lambda p, s: p.evidence.add("test", "ok", session=s, request_id="r"),
    "create branch": lambda p, s: p.branches.create("side", request_id="r"),
    "select branch": lambda p, s: p.branches.select("main", request_id="r"),
    "index": lambda p, s: indexing.replace(p, ITEMS[:1], request_id="r"),
}


@pytest.mark.parametrize("table", ["events", "receipts", "projects"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_failure_at_the_end_undoes_all(world: World, operation: str, table: str) -> None:
    session = world.project.sessions.start("A", "codex", claim=True, ttl_ms=1000).session.id
    before = world.everything()
    with refusing(world, table, "UPDATE" if table == "projects" else "INSERT"):
        with refused("storage_failed"):
            OPERATIONS[operation](world.project, session)
        assert world.everything() == before
    # And the same request is carried out afterwards.
    answer = OPERATIONS[operation](world.project, session)
    assert answer.project_revision == world.project.info().revision


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
