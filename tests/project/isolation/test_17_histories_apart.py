"""Condition 17: each branch has a history of its own, while work is shared: what is held on one
cannot be had on another."""

from __future__ import annotations

from tests.project.peers import all_at_once, from_the_door
from tests.project.world import World, refused


def test_each_has_its_own(world: World) -> None:
    project = world.project
    project.branches.create("side")
    one = project.sessions.start("A", "codex").session.id
    two = project.sessions.start("A", "codex", branch="side").session.id
    for number in range(3):
        project.events.append("note.taken", {"main": number}, session=one)
        project.events.append("note.taken", {"side": number}, session=two)
    main = project.events.list(branch="main", type="note.taken").events
    side = project.events.list(branch="side", type="note.taken").events
    assert [event.body for event in main] == [{"main": number} for number in range(3)]
    assert [event.body for event in side] == [{"side": number} for number in range(3)]
    assert {event.session for event in side} == {two}


def test_the_same_work_on_one_only_and_different_work_on_both(world: World) -> None:
    project = world.project
    project.branches.create("side")
    project.sessions.start("A", "codex", claim=True)
    with refused("claim_held"):
        project.sessions.start("A", "claude", branch="side", claim=True)
    found = project.sessions.start("B", "claude", branch="side", claim=True).claim
    assert found is not None
    assert (found.work, found.branch) == ("B", "side")


def test_processes_on_two_branches(world: World) -> None:
    project = world.project
    project.branches.create("side")
    peers = [world.peer() for _ in range(4)]
    sessions = [
        project.sessions.start("A", f"a{number}", branch=branch).session.id
        for number, branch in enumerate(["main", "side", "main", "side"])
    ]
    answers = from_the_door(peers, "claims.acquire", sessions)
    assert sum("answer" in answer for answer in answers) == 1
    assert {answer["error"]["code"] for answer in answers if "error" in answer} == {"claim_held"}
    apart = all_at_once(peers[:2], "sessions.start", ["B", "C"], ["x", "y"], claim=True)
    assert all("answer" in answer for answer in apart)
