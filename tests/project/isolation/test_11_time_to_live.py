"""Condition 11: no TTL, no end; a finite one ends at its deadline; others are refused whole.

What counts is the time of the transaction, which never lies before anything that was written.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from time import time_ns
from typing import Any

import pytest

from callboard.project.project import Project
from tests.project import indexing
from tests.project.peers import Peer
from tests.project.world import ITEMS, NOW_MS, World, refused

LAST = 2**53 - 1
REFUSED: dict[str, Any] = {
    "zero": 0,
    "negative": -1,
    "fraction": 1.5,
    "whole fraction": 1000.0,
    "true": True,
    "text": "1000",
    "too large": 2**53,
    "huge": 10**400,
    "overflowing": LAST - NOW_MS + 1,
    "overflowing by far": LAST,
    "not a number": float("nan"),
}


@pytest.mark.parametrize("ttl", REFUSED)
def test_a_wrong_one_leaves_neither_session_nor_claim(world: World, ttl: str) -> None:
    project = world.project
    idle = project.sessions.start("B", "codex").session.id
    held = project.sessions.start("C", "codex", claim=True, ttl_ms=500).session.id
    before = world.everything()
    with refused("ttl_invalid"):
        project.sessions.start("A", "codex", claim=True, ttl_ms=REFUSED[ttl])
    with refused("ttl_invalid"):
        project.claims.acquire(idle, ttl_ms=REFUSED[ttl])
    with refused("ttl_invalid"):
        project.claims.renew(held, REFUSED[ttl])
    with refused("ttl_invalid"):
        project.sessions.handoff(held, "claude", ttl_ms=REFUSED[ttl])
    with refused("ttl_invalid"):
        project.sessions.resume(held, "claude", ttl_ms=REFUSED[ttl])
    assert world.everything() == before


def test_one_without_a_claim_is_refused(world: World) -> None:
    before = world.everything()
    with refused("ttl_invalid"):
        world.project.sessions.start("A", "codex", ttl_ms=1000)
    assert world.everything() == before


def test_none_never_ends(world: World) -> None:
    project = world.project
    session = project.sessions.start("A", "codex", claim=True).session.id
    world.clock.advance(LAST - NOW_MS - 10)
    claim = project.claims.show("A").claim
    assert claim is not None
    assert (claim.state, claim.expires_at_ms) == ("active", None)
    with refused("claim_held"):
        project.claims.acquire(project.sessions.start("A", "claude").session.id)
    assert project.claims.release(session).claim.state == "released"


def test_the_last_possible_end_is_taken(world: World) -> None:
    answer = world.project.sessions.start("A", "codex", claim=True, ttl_ms=LAST - NOW_MS)
    assert answer.claim is not None
    assert answer.claim.expires_at_ms == LAST


def test_it_is_over_at_its_deadline_and_not_before(world: World) -> None:
    project = world.project
    holder = project.sessions.start("A", "codex", claim=True, ttl_ms=1000).session.id
    other = project.sessions.start("A", "claude").session.id
    world.clock.advance(999)
    with refused("claim_held"):
        project.claims.acquire(other)
    assert project.claims.renew(holder, 1000).claim.expires_at_ms == NOW_MS + 1999
    for ms, state in ((999, "active"), (1, "expired")):
        world.clock.advance(ms)
        shown = project.claims.show("A").claim
        assert shown is not None
        assert shown.state == state
    with refused("claim_not_holder"):
        project.claims.renew(holder, 1000)
    assert project.claims.acquire(other).claim.session == other


def test_a_clock_set_back_neither_revives_nor_extends(world: World) -> None:
    """Three processes with clocks of their own; the database's record of time decides."""
    project = world.project
    ahead = world.peer(clock_ms=NOW_MS + 61_000)
    behind = world.peer(clock_ms=NOW_MS - 600_000)
    first = project.sessions.start("A", "codex", claim=True, ttl_ms=60_000).session.id
    dead = project.claims.show("A").claim
    assert dead is not None
    # One that is behind neither gets what lives, nor ends up with an end of its own time.
    started = behind.ask("sessions.start", "A", "late")["answer"]["session"]
    assert started["started_at_ms"] == NOW_MS
    assert behind.ask("claims.acquire", started["id"])["error"]["code"] == "claim_held"
    mine = behind.ask("sessions.start", "B", "late", claim=True, ttl_ms=60_000)["answer"]["claim"]
    assert mine["expires_at_ms"] == NOW_MS + 60_000
    # Time has passed the end, and somebody wrote at that time.
    ahead.ask("events.append", "note.taken", {})
    assert behind.ask("claims.renew", first, 60_000)["error"]["code"] == "claim_not_holder"
    with refused("claim_not_holder"):
        project.claims.release(first)
    shown = behind.ask("claims.show", "A")["answer"]["claim"]
    assert shown["state"] == "expired"
    taken = behind.ask("claims.acquire", started["id"], ttl_ms=1000)["answer"]["claim"]
    assert taken["acquired_at_ms"] == NOW_MS + 61_000
    assert taken["expires_at_ms"] == NOW_MS + 62_000
    found = project.doctor.check().findings
    assert "clock_behind" in {finding.code for finding in found}


def test_a_process_whose_clock_is_wrong_changes_nothing(tmp_path: Path) -> None:
    """A lease of a minute, and others whose own clocks are ten minutes off: they get nothing early,
    and what they get themselves ends when it should. `tests.project.test_clock_skew` waits too.
    """
    with Project.create(tmp_path, key="demo") as project:
        indexing.replace(project, ITEMS)
        held = project.sessions.start("A", "codex", claim=True, ttl_ms=60_000).claim
        assert held is not None
        for off_ms in (600_000, -600_000):
            peer = Peer(tmp_path, clock_ms=None, off_ms=off_ms)
            try:
                now_ms = time_ns() // 1_000_000
                assert abs(peer.ask("clock")["answer"] - now_ms - off_ms) < 60_000
                late = peer.ask("sessions.start", "A", "late")["answer"]["session"]["id"]
                assert peer.ask("claims.acquire", late)["error"]["code"] == "claim_held"
                own = peer.ask("sessions.start", "B", "late", claim=True, ttl_ms=60_000)["answer"]
                assert abs(own["claim"]["acquired_at_ms"] - now_ms) < 60_000
                assert own["claim"]["expires_at_ms"] == own["claim"]["acquired_at_ms"] + 60_000
                peer.ask("sessions.end", own["session"]["id"])
            finally:
                peer.end()
        assert project.claims.show("A").claim == held


def test_a_renewal_by_its_holder_keeps_others_off(world: World) -> None:
    """A lease of 2 s, renewed every second for 8 s: nobody else gets it in between."""
    project = world.project
    holder = project.sessions.start("A", "codex", claim=True, ttl_ms=2000).session.id
    other = project.sessions.start("A", "claude").session.id
    for _second in range(8):
        world.clock.advance(1000)
        with refused("claim_held"):
            project.claims.acquire(other, ttl_ms=2000)
        project.claims.renew(holder, 2000)
    claim = project.claims.release(holder).claim
    assert (claim.fence, claim.released_at_ms) == (1, NOW_MS + 8000)


def test_a_short_lease_beside_a_long_one(world: World) -> None:
    """Renewing one claim says nothing of another, whatever it asks for."""
    project = world.project
    short = project.sessions.start("A", "codex", claim=True, ttl_ms=3000).session.id
    long = project.sessions.start("B", "codex", claim=True, ttl_ms=300_000).session.id
    for _ in range(10):
        world.clock.advance(1400)
        assert project.claims.renew(long, 300_000).claim.work == "B"
        project.claims.renew(short, 3000)
        now = world.clock.now_ms()
        ends = {work: project.claims.show(work).claim for work in ("A", "B")}
        assert {work: claim and claim.expires_at_ms for work, claim in ends.items()} == {
            "A": now + 3000,
            "B": now + 300_000,
        }
    events = project.events.list(work="A", type="claim.renewed").events
    times = [NOW_MS, *(event.at_ms for event in events)]
    assert max(late - early for early, late in pairwise(times)) < 1500
    assert len(project.events.list(work="A", type="claim.acquired").events) == 1
