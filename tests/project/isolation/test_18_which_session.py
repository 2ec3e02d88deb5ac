"""Condition 18: no session named means the only one of the selected branch; a named one must agree
with what is named beside it."""

from __future__ import annotations

from tests.project.world import World, refused


def test_only_the_selected_branch_is_looked_at(world: World) -> None:
    project = world.project
    project.branches.create("side")
    main = project.sessions.start("A", "codex").session
    side = project.sessions.start("A", "codex", branch="side").session
    assert project.sessions.show().session == main
    # One of another branch is nobody's candidate, however well it fits.
    other = project.sessions.start("B", "claude", branch="side").session
    for named in ({"work": "B"}, {"agent": "claude"}):
        with refused("not_found"):
            project.sessions.show(**named)
    project.sessions.end(other.id)
    project.branches.select("side")
    assert project.sessions.show().session == side
    assert project.sessions.show(branch="main").session == main


def test_several_are_listed_and_none_is_chosen(world: World) -> None:
    project = world.project
    project.branches.create("side")
    project.sessions.start("A", "codex", branch="side")
    sessions = [
        project.sessions.start(work, agent).session
        for work, agent in (("A", "codex"), ("B", "codex"), ("A", "claude"))
    ]
    with refused("session_ambiguous") as found:
        project.sessions.show()
    candidates = found.value.details["candidates"]
    assert isinstance(candidates, list)
    assert [one["id"] for one in candidates] == [one.id for one in reversed(sessions)]
    assert candidates[0] == {
        "id": sessions[2].id,
        "work": "A",
        "branch": "main",
        "agent": "claude",
    }
    assert project.sessions.show(work="B").session == sessions[1]
    assert project.sessions.show(agent="claude").session == sessions[2]
    assert project.sessions.show(work="A", agent="codex").session == sessions[0]


def test_what_is_over_is_no_candidate(world: World) -> None:
    project = world.project
    one = project.sessions.start("A", "codex").session
    two = project.sessions.start("A", "codex").session
    project.sessions.end(one.id)
    assert project.sessions.show().session == two
    project.sessions.interrupt(two.id)
    with refused("not_found"):
        project.sessions.show()
    # By its id it is there as ever.
    assert project.sessions.show(one.id).session.state == "ended"


def test_many_candidates_are_bounded(world: World) -> None:
    for number in range(25):
        world.project.sessions.start("A", f"agent-{number}")
    with refused("session_ambiguous") as found:
        world.project.sessions.show()
    candidates = found.value.details["candidates"]
    assert isinstance(candidates, list)
    assert len(candidates) == 20
    assert found.value.details["more"] is True


def test_a_named_one_must_agree(world: World) -> None:
    project = world.project
    session = project.sessions.start("A", "codex").session
    found = project.sessions.show(session.id, work="A", agent="codex", branch="main")
    assert found.session == session
    for field, value in (("work", "B"), ("agent", "claude"), ("branch", "side")):
        with refused("session_mismatch") as wrong:
            project.sessions.show(session.id, **{field: value})
        assert wrong.value.details["field"] == field
    # A branch that is selected by now says nothing of a session that is named.
    project.branches.create("side")
    project.branches.select("side")
    assert project.sessions.show(session.id, work="A").session == session
    for work, branch in (("B", None), ("A", "side")):
        with refused("session_mismatch"):
            project.work.show(work, session=session.id, branch=branch)
    with refused("session_mismatch"):
        project.work.complete("B", session=session.id)
    with refused("session_mismatch"):
        project.sessions.checkpoint(session.id, "half", "on", agent="claude")
    saved = project.sessions.checkpoint(session.id, "half", "on", agent="codex").checkpoint
    assert saved.agent == "codex"
    assert project.sessions.checkpoint(session.id, "half", "on").checkpoint.agent == "undeclared"
