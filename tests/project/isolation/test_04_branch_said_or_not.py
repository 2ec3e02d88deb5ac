"""Condition 4: a branch that is named, `main` too, must be the session's; none named infers it."""

from __future__ import annotations

import pytest

from tests.project.world import World, refused


def test_none_named_infers_the_sessions(world: World) -> None:
    project = world.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", branch="side").session.id
    assert project.events.append("note.taken", {}, session=session).event.branch == "side"


@pytest.mark.parametrize("main", ["main", None])
def test_main_is_a_branch_like_any_other(world: World, main: str | None) -> None:
    project = world.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", branch="side").session.id
    before = world.everything()
    with refused("session_mismatch"):
        project.events.append_in_branch(main, "note.taken", {}, session=session)
    with refused("session_mismatch"):
        project.sessions.show(session, branch="main")
    assert world.everything() == before
    on_main = project.sessions.start("B", "codex", branch="main").session.id
    found = project.events.append_in_branch(main, "note.taken", {}, session=on_main)
    assert found.event.branch == "main"


def test_without_a_session_none_named_means_the_selected_one(world: World) -> None:
    project = world.project
    project.branches.create("side")
    project.branches.select("side")
    assert project.events.append("note.taken", {}).event.branch == "side"
    assert project.events.append_in_branch(None, "note.taken", {}).event.branch == "main"


def test_evidence_keeps_to_it_too(world: World) -> None:
    project = world.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", branch="side").session.id
    with refused("session_mismatch"):
        project.evidence.add("test", "green", session=session, branch="main")
    assert project.evidence.add("test", "green", session=session).evidence.branch == "side"
