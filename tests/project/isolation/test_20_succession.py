"""Condition 20: handoff keeps work and branch, and the checkpoint its owner; resume needs its
branch to be current, and each session has one successor; a closed branch takes nothing new;
evidence of another branch is history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.project.peers import all_at_once
from tests.project.world import World, refused


def test_a_handoff_keeps_work_branch_and_the_owner_of_the_checkpoint(world: World) -> None:
    project = world.project
    project.branches.create("side")
    first = project.sessions.start("A", "codex", branch="side").session.id
    saved = project.sessions.checkpoint(first, "half", "go on", open_loops=["x"], agent="codex")
    answer = project.sessions.handoff(first, "claude", provider="p", model="m")
    after = answer.session
    assert (after.work, after.branch, after.predecessor) == ("A", "side", first)
    assert (after.agent, after.provider, after.model) == ("claude", "p", "m")
    assert project.sessions.show(first).session.state == "handed_off"
    inherited = project.sessions.show(after.id).checkpoint
    assert inherited == saved.checkpoint
    assert (inherited.session, inherited.agent) == (first, "codex")


@pytest.mark.parametrize("first", ["handoff", "resume"])
@pytest.mark.parametrize("then", ["handoff", "resume"])
def test_there_is_one_successor(world: World, first: str, then: str) -> None:
    project = world.project
    session = project.sessions.start("A", "codex").session.id
    follower = getattr(project.sessions, first)(session, "claude").session.id
    before = world.everything()
    with refused("successor_exists") as found:
        getattr(project.sessions, then)(session, "third")
    assert found.value.details["successor"] == follower
    assert world.everything() == before


def test_of_many_processes_one_resumes(world: World) -> None:
    project = world.project
    session = project.sessions.start("A", "codex", claim=True).session.id
    project.sessions.interrupt(session)
    peers = [world.peer() for _ in range(6)]
    agents = [f"agent-{number}" for number in range(6)]
    answers = all_at_once(peers, "sessions.resume", [session] * 6, agents)
    assert sum("answer" in answer for answer in answers) == 1
    assert {answer["error"]["code"] for answer in answers if "error" in answer} == {
        "successor_exists"
    }


def test_resume_needs_its_branch_to_be_current(world: World) -> None:
    project = world.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", branch="side").session.id
    project.sessions.interrupt(session)
    before = world.everything()
    with refused("branch_not_current") as found:
        project.sessions.resume(session, "claude")
    assert found.value.details["branch"] == "side"
    assert world.everything() == before
    project.branches.select("side")
    assert project.sessions.resume(session, "claude").session.branch == "side"


def test_what_has_ended_is_not_resumed(world: World) -> None:
    project = world.project
    session = project.sessions.start("A", "codex").session.id
    project.sessions.end(session)
    for way in ("resume", "handoff"):
        with refused("session_not_active"):
            getattr(project.sessions, way)(session, "claude")


def test_a_closed_branch_takes_nothing_new_and_stays_readable(world: World) -> None:
    project = world.project
    project.branches.create("side")
    live = project.sessions.start("A", "codex", branch="side", claim=True, ttl_ms=9000).session.id
    idle = project.sessions.start("B", "codex", branch="side").session.id
    project.evidence.add("test", "green", session=live)
    project.branches.select("side")
    project.branches.close("side")
    before = world.everything()
    refusals: list[Callable[[], object]] = [
        lambda: project.sessions.start("C", "codex"),
        lambda: project.sessions.start("C", "codex", branch="side"),
        lambda: project.events.append("note.taken", {}, session=live),
        lambda: project.events.append("note.taken", {}, branch="side"),
        lambda: project.evidence.add("test", "more", session=live),
        lambda: project.claims.acquire(idle),
        lambda: project.claims.renew(live, 1000),
        lambda: project.sessions.interrupt(live),
        lambda: project.sessions.handoff(live, "claude"),
        lambda: project.sessions.resume(live, "claude"),
        lambda: project.branches.select("side"),
        lambda: project.branches.close("side"),
    ]
    for refusal in refusals:
        with refused("branch_closed"):
            refusal()
    assert world.everything() == before
    assert project.events.list(branch="side").events
    assert project.evidence.list(branch="side", current=True).evidence
    assert project.sessions.show(live).claim is not None
    # What may still be done: checkpoint, release, end.
    project.sessions.checkpoint(live, "half", "stop")
    project.claims.release(live)
    project.sessions.end(live)
    project.sessions.end(idle)


def test_evidence_of_another_branch_is_history(world: World) -> None:
    project = world.project
    project.branches.create("side")
    project.evidence.add("test", "on main", work="A", covers=["it runs"])
    project.evidence.add("test", "on side", work="A", branch="side", covers=["it runs"])
    for branch in ("main", "side"):
        project.branches.select(branch)
        found = {one.summary: one.currency for one in project.evidence.list(work="A").evidence}
        assert found[f"on {branch}"] == "current"
        assert sorted(found.values()) == ["current", "historical"]
        only = project.evidence.list(work="A", current=True).evidence
        assert [one.summary for one in only] == [f"on {branch}"]
    with refused("criterion_unknown"):
        project.evidence.add("test", "of what", work="A", covers=["it flies"])
