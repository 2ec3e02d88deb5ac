"""Condition 13: the repair checks the deadline in its transaction, and touches that claim alone."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.project.answers import SessionStarted
from tests.project.peers import Peer, from_the_door
from tests.project.world import NOW_MS, World, refused


def test_a_lapsed_claim_is_marked_and_nothing_else(world: World) -> None:
    project = world.project
    first = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    other = project.sessions.start("B", "claude", claim=True, ttl_ms=1000)
    assert first.claim is not None
    world.clock.advance(1000)
    revision = project.info().revision
    answer = project.doctor.expire_claim(
        first.claim.id, "nobody came back for it", expected_revision=revision
    )
    assert answer.project_revision == revision + 1
    assert answer.claim.state == "expired"
    assert answer.event.type == "claim.expired"
    assert answer.event.body["reason"] == "nobody came back for it"
    assert project.sessions.show(first.session.id).session.state == "active"
    untouched = project.claims.show("B").claim
    assert untouched is not None
    assert (untouched.session, untouched.released_at_ms) == (other.session.id, None)
    assert project.claims.show("A").claim is None


def test_what_has_not_lapsed_is_refused(world: World) -> None:
    project = world.project
    finite = project.sessions.start("A", "codex", claim=True, ttl_ms=1000).claim
    endless = project.sessions.start("B", "codex", claim=True).claim
    ended = project.sessions.start("C", "codex", claim=True, ttl_ms=1000)
    assert finite is not None
    assert endless is not None
    assert ended.claim is not None
    project.claims.release(ended.session.id)
    world.clock.advance(999)
    before = world.everything()
    revision = project.info().revision
    for claim in (finite, endless, ended.claim):
        with refused("claim_not_expired"):
            project.doctor.expire_claim(claim.id, "I want it", expected_revision=revision)
    with refused("not_found"):
        project.doctor.expire_claim("c_nobody", "why", expected_revision=revision)
    assert world.everything() == before


def test_it_needs_the_revision_and_a_reason(world: World) -> None:
    project = world.project
    claim = project.sessions.start("A", "codex", claim=True, ttl_ms=1000).claim
    assert claim is not None
    world.clock.advance(2000)
    revision = project.info().revision
    before = world.everything()
    with refused("revision_conflict"):
        project.doctor.expire_claim(claim.id, "why", expected_revision=revision - 1)
    for reason in ("", "  \n", "\x1b[2J"):
        with refused("text_invalid"):
            project.doctor.expire_claim(claim.id, reason, expected_revision=revision)
    nothing: Any = None
    with pytest.raises(CallboardError, match="value_invalid"):
        project.doctor.expire_claim(claim.id, "why", expected_revision=nothing)
    assert world.everything() == before


def lapsed_for(world: World, peers: int) -> tuple[SessionStarted, str, int, list[Peer]]:
    """A claim on `A`, its id, the revision now, and processes by whose clock it has lapsed."""
    held = world.project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    assert held.claim is not None
    late = [world.peer(clock_ms=NOW_MS + 1000) for _ in range(peers)]
    for peer in late:
        assert peer.ask("claims.show", "A")["answer"]["claim"]["state"] == "expired"
    return held, held.claim.id, held.project_revision, late


def test_a_renewal_that_came_first_wins(world: World) -> None:
    """What the doctor saw may be over; the deadline is looked at again when it writes."""
    held, claim, revision, (late,) = lapsed_for(world, 1)
    # It had looked, and is about to write at the revision that the renewal makes.
    late.bring("doctor.expire_claim", claim, "looked lapsed", expected_revision=revision + 1)
    renewed = world.project.claims.renew(held.session.id, 60_000)
    assert renewed.project_revision == revision + 1
    before = world.everything()
    late.let_go()
    assert late.answer()["error"]["code"] == "claim_not_expired"
    assert world.everything() == before


def test_a_repair_after_a_takeover_finds_it_ended(world: World) -> None:
    """At the revision that it names there is nothing left to repair."""
    _held, claim, revision, (repair, other) = lapsed_for(world, 2)
    repair.bring("doctor.expire_claim", claim, "elapsed", expected_revision=revision + 1)
    taken = other.ask("sessions.start", "A", "claude", claim=True)["answer"]
    repair.let_go()
    error = repair.answer()["error"]
    assert (error["code"], error["details"]["state"]) == ("claim_not_expired", "expired")
    check_ended_once(world, claim, taken["project_revision"])


def test_a_takeover_after_a_repair_takes_what_is_free(world: World) -> None:
    _held, claim, revision, (repair, other) = lapsed_for(world, 2)
    other.bring("sessions.start", "A", "claude", claim=True)
    repaired = repair.ask("doctor.expire_claim", claim, "elapsed", expected_revision=revision)
    assert repaired["answer"]["claim"]["state"] == "expired"
    other.let_go()
    taken = other.answer()["answer"]
    assert [event["type"] for event in taken["events"]] == ["session.started", "claim.acquired"]
    assert "took_over" not in taken["events"][1]["body"]
    check_ended_once(world, claim, revision + 1)


def test_a_repair_and_a_takeover_at_once_end_it_once(world: World) -> None:
    """Neither waits for the other; the takeover always comes through, as it names no revision."""
    _held, claim, revision, (repair, other) = lapsed_for(world, 2)
    repair.bring("doctor.expire_claim", claim, "elapsed", expected_revision=revision)
    other.bring("sessions.start", "A", "claude", claim=True)
    for peer in (repair, other):
        peer.let_go()
    told, taken = repair.answer(), other.answer()["answer"]
    if "error" in told:
        assert told["error"]["code"] == "revision_conflict"
        assert told["error"]["details"] == {"expected": revision, "actual": revision + 1}
    else:
        assert told["answer"]["project_revision"] == revision + 1
    assert taken["project_revision"] == revision + ("error" not in told) + 1
    check_ended_once(world, claim, revision + 1)


def test_of_repairs_at_once_one_comes_through(world: World) -> None:
    _held, claim, revision, peers = lapsed_for(world, 4)
    answers = from_the_door(
        peers, "doctor.expire_claim", [claim] * 4, ["elapsed"] * 4, expected_revision=revision
    )
    assert sum("answer" in answer for answer in answers) == 1
    codes = {answer["error"]["code"] for answer in answers if "error" in answer}
    assert codes == {"revision_conflict"}
    check_ended_once(world, claim, revision + 1)


def check_ended_once(world: World, claim: str, revision: int) -> None:
    """The claim was ended by one change, and is told of by one event."""
    told = world.project.events.list(type="claim.expired").events
    assert [(event.body["claim"], event.revision) for event in told] == [(claim, revision)]
    assert {row[2]: row[7] for row in world.rows("claims")}[claim] == "expired"
