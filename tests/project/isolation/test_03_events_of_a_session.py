"""Condition 3: an event of a session has the session's work and branch, and no other."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert

from callboard.project import schema
from callboard.project.project import Project
from tests.project.world import World, refused


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


def test_a_session_of_another_project_is_none_of_this(world: World) -> None:
    """Two projects in one database see nothing of each other."""
    from callboard.project import access

    other = access.store_of(world.project._key)
    first = world.project.sessions.start("A", "codex").session.id
    own = {"tenant": "local", "project": "p_other"}
    with other._engine.execution_options(writes=True).begin() as connection:
        connection.execute(
            insert(schema.projects),
            own | {"key": "other", "revision": 1, "last_seq": 1, "clock_ms": 0, "created_at_ms": 0},
        )
        branch = {"name": "main", "twin": "main", "state": "open", "position": 1}
        connection.execute(insert(schema.branches), own | branch | {"created_at_ms": 0})
        connection.execute(insert(schema.selections), own | {"person": "self", "branch": "main"})
    from callboard.project.store import Store

    second = Project(
        Store(
            other.backing,
            tenant="local",
            project="p_other",
            actor="local",
        ),
        access.around_of(world.project._key),
    )
    before = world.everything()
    with refused("not_found"):
        second.events.append("note.taken", {}, session=first)
    with refused("not_found"):
        second.sessions.show(first)
    with refused("not_found"):
        second.claims.acquire(first)
    assert second.events.list().events == ()
    assert world.everything() == before
