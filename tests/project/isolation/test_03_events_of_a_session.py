"""Condition 3: an event of a session has the session's work and branch, and no other."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import insert

from callboard.project import access, schema
from callboard.project.project import Project
from callboard.project.records import SourceFile
from callboard.project.store import Store
from tests.project import indexing
from tests.project.world import ITEMS, SHA, SOURCE, World, refused


def test_it_inherits_work_and_branch(world: World) -> None:
    project = world.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", branch="side").session
    event = project.events.append("note.taken", {"n": 1}, session=session.id).event
    assert (event.work, event.branch, event.session) == ("A", "side", session.id)
    same = project.events.append(
        "note.taken", {"n": 2}, session=session.id, work="A", branch="side"
    ).event
    assert (same.work, same.branch) == ("A", "side")


def test_what_conflicts_is_refused(world: World) -> None:
    project = world.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", branch="side").session.id
    before = world.everything()
    conflicts: list[dict[str, Any]] = [
        {"work": "B"},
        {"branch": "main"},
        {"work": "A", "branch": "main"},
    ]
    for named in conflicts:
        with refused("session_mismatch") as found:
            project.events.append("note.taken", {}, session=session, **named)
        assert found.value.details["session"] == session
    with refused("not_found"):
        project.events.append("note.taken", {}, session="s_of_nobody", work="A")
    with refused("not_found"):
        project.events.append("note.taken", {}, work="Z")
    assert world.everything() == before


def neighbour(world: World, kind: str) -> Project:
    """Another project in the same database with the same work: of this tenant, or of another.

    The one of another tenant has the id of this project.
    """
    store = access.store_of(world.project._key)
    own = {"tenant": "local", "project": "p_other"}
    if kind == "tenant":
        own = {"tenant": "other", "project": world.project.info().id}
    with store._engine.execution_options(writes=True).begin() as connection:
        connection.execute(
            insert(schema.projects),
            own | {"key": "other", "revision": 1, "last_seq": 0, "clock_ms": 0, "created_at_ms": 0},
        )
        branch = {"name": "main", "twin": "main", "state": "open", "position": 1}
        connection.execute(insert(schema.branches), own | branch | {"created_at_ms": 0})
        connection.execute(insert(schema.selections), own | {"person": "self", "branch": "main"})
    found = Project(
        Store(store.backing, **own, actor="local"), access.around_of(world.project._key)
    )
    indexing.replace(
        found, ITEMS, (), (SourceFile(path="work.yaml", sha256=SHA, size_bytes=len(SOURCE)),)
    )
    return found


@pytest.mark.parametrize("kind", ["project", "tenant"])
def test_a_session_of_another_project_is_none_of_this(world: World, kind: str) -> None:
    """Two projects in one database see nothing of each other."""
    project = world.project
    first = project.sessions.start("A", "codex", claim=True).session.id
    project.evidence.add("test", "green", work="A")
    project.branches.create("side")
    second = neighbour(world, kind)
    before = world.everything()
    with refused("not_found"):
        second.events.append("note.taken", {}, session=first)
    with refused("not_found"):
        second.sessions.show(first)
    with refused("not_found"):
        second.claims.acquire(first)
    assert [event.type for event in second.events.list().events] == ["source.indexed"]
    assert second.sessions.list().sessions == ()
    assert second.evidence.list().evidence == ()
    assert second.claims.show("A").claim is None
    assert [branch.name for branch in second.branches.list().branches] == ["main"]
    # C waits for A, and nobody holds A here.
    assert [item.key for item in second.work.ready().ready] == ["A", "B"]
    assert [item.key for item in project.work.ready().ready] == ["B"]
    assert second.status().counts["claims"] == {}
    assert world.everything() == before


@pytest.mark.parametrize("kind", ["project", "tenant"])
def test_a_cursor_of_another_project_is_none_of_this(world: World, kind: str) -> None:
    world.project.events.append("note.taken", {})
    cursor = world.project.events.list(limit=1).next
    assert cursor is not None
    second = neighbour(world, kind)
    with refused("cursor_invalid"):
        second.events.list(after=cursor, limit=1)
    assert len(world.project.events.list(after=cursor, limit=1).events) == 1
