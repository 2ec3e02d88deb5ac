"""Condition 13: the repair checks the deadline in its transaction, and touches that claim alone."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.errors import CallboardError
from tests.project.world import NOW_MS, World, refused


def test_a_lapsed_claim_is_marked_and_nothing_else(world: World) -> None:
    project = world.project
    first = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    other = project.sessions.start("B", "claude", claim=True, ttl_ms=1000)
    assert first.claim is not None
    world.clock.advance(1000)
    revision = project.info().revision
    answer = project.doctor.expire_claim(
        first.claim.id, "nobody came back", expected_revision=revision
    )
    assert answer.project_revision == revision + 1
    assert answer.claim.state == "expired"
    assert answer.event.type == "claim.expired"
    assert answer.event.body["reason"] == "nobody came back"
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


def test_a_renewal_that_came_first_wins(world: World) -> None:
    """What the doctor saw may be over; the deadline is looked at again when it writes."""
    project = world.project
    held = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    assert held.claim is not None
    late = world.peer(clock_ms=NOW_MS + 1000)
    assert late.ask("claims.show", "A")["answer"]["claim"]["state"] == "expired"
    renewed = project.claims.renew(held.session.id, 60_000)
    answer = late.ask(
        "doctor.expire_claim",
        held.claim.id,
        "looked lapsed",
        expected_revision=renewed.project_revision,
    )
    assert answer["error"]["code"] == "claim_not_expired"
    shown = project.claims.show("A").claim
    assert shown is not None
    assert shown.state == "active"


def test_of_a_repair_and_a_takeover_one_comes_through(world: World) -> None:
    project = world.project
    held = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    assert held.claim is not None
    one, two = world.peer(clock_ms=NOW_MS + 1000), world.peer(clock_ms=NOW_MS + 1000)
    revision = project.info().revision
    one.send("doctor.expire_claim", held.claim.id, "elapsed", expected_revision=revision)
    two.send("sessions.start", "A", "claude", claim=True, expected_revision=revision)
    answers = [one.answer(), two.answer()]
    assert sorted("answer" in answer for answer in answers) == [False, True]
    lost = next(answer["error"] for answer in answers if "error" in answer)
    assert lost["code"] == "revision_conflict"
    assert len(project.events.list(type="claim.expired").events) == 1
