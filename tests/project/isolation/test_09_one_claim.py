"""Condition 9: nobody gets what another holds, on whatever branch or from whatever process."""

from __future__ import annotations

import sqlite3

import pytest

from tests.ambient import DEEP
from tests.project.peers import Peer, all_at_once
from tests.project.world import World, refused

ROUNDS = 50 if DEEP else 6
PEERS = 16 if DEEP else 8


def test_a_second_one_is_refused_on_any_branch(world: World) -> None:
    project = world.project
    project.branches.create("side")
    first = project.sessions.start("A", "codex", claim=True)
    for branch in ("main", "side"):
        other = project.sessions.start("A", "claude", branch=branch).session.id
        with refused("claim_held") as found:
            project.claims.acquire(other)
        assert found.value.details["session"] == first.session.id
        assert found.value.details["branch"] == "main"
        assert "codex" in found.value.message
    with refused("claim_held"):
        project.claims.acquire(first.session.id)


def test_the_database_itself_has_room_for_one(world: World) -> None:
    """Also a program that checks nothing cannot write a second one."""
    world.project.sessions.start("A", "codex", claim=True)
    raw = world.raw()
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        raw.execute(
            "INSERT INTO claims SELECT tenant, project, 'c_2', work, session, agent, 'side', "
            "'active', fence + 1, acquired_at_ms, NULL, NULL FROM claims"
        )
    raw.close()


def test_of_many_processes_one_has_it(world: World) -> None:
    """Half of them start with a claim, half acquire it for a session they have, on two branches.

    In the first round all of them are about to write before anybody does.
    """
    project = world.project
    project.branches.create("side")
    peers = [world.peer() for _ in range(PEERS)]
    for round in range(ROUNDS):
        starters, takers = peers[: PEERS // 2], peers[PEERS // 2 :]
        sessions = [
            project.sessions.start("A", f"taker-{round}-{number}").session.id
            for number in range(len(takers))
        ]
        ask = Peer.send if round else Peer.bring
        for number, peer in enumerate(starters):
            branch = ("main", "side")[number % 2]
            ask(peer, "sessions.start", "A", f"agent-{number}", claim=True, branch=branch)
        for peer, session in zip(takers, sessions, strict=True):
            ask(peer, "claims.acquire", session)
        if not round:
            for peer in peers:
                peer.let_go()
        answers = [peer.answer() for peer in peers]
        won = [answer["answer"] for answer in answers if "answer" in answer]
        lost = [answer["error"] for answer in answers if "error" in answer]
        assert len(won) == 1
        holder = won[0]["claim"]["session"]
        assert {error["code"] for error in lost} == {"claim_held"}
        assert {error["details"]["session"] for error in lost} == {holder}
        assert won[0]["claim"]["fence"] == round + 1
        project.claims.release(holder)
    acquired = project.events.list(type="claim.acquired", limit=500).events
    assert len(acquired) == ROUNDS


def test_different_work_is_taken_by_all_at_once(world: World) -> None:
    peers = [world.peer() for _ in range(3)]
    answers = all_at_once(peers, "sessions.start", ["A", "B", "C"], ["x", "y", "z"], claim=True)
    assert [answer["answer"]["claim"]["work"] for answer in answers] == ["A", "B", "C"]
