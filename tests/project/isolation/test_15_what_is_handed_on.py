"""Condition 15: handoff and resume keep the end of a claim unless a TTL is given; a lapsed claim
hands on nothing."""

from __future__ import annotations

import pytest

from tests.project.world import NOW_MS, World, refused

WAYS = ("handoff", "resume")


@pytest.mark.parametrize("way", WAYS)
def test_the_end_stays(world: World, way: str) -> None:
    project = world.project
    first = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    assert first.claim is not None
    world.clock.advance(400)
    answer = getattr(project.sessions, way)(first.session.id, "claude")
    assert answer.claim is not None
    assert answer.claim.expires_at_ms == NOW_MS + 1000
    assert answer.claim.acquired_at_ms == NOW_MS + 400
    assert answer.claim.session == answer.session.id
    assert answer.claim.fence == first.claim.fence + 1
    old = project.sessions.show(first.session.id).claim
    assert old is not None
    assert old.state == "transferred"
    with refused("claim_not_holder"):
        project.claims.release(first.session.id)


@pytest.mark.parametrize("way", WAYS)
def test_no_end_stays_none(world: World, way: str) -> None:
    first = world.project.sessions.start("A", "codex", claim=True)
    answer = getattr(world.project.sessions, way)(first.session.id, "claude")
    assert answer.claim is not None
    assert answer.claim.expires_at_ms is None


@pytest.mark.parametrize("way", WAYS)
def test_a_new_end_is_taken(world: World, way: str) -> None:
    first = world.project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    world.clock.advance(400)
    answer = getattr(world.project.sessions, way)(first.session.id, "claude", ttl_ms=5000)
    assert answer.claim is not None
    assert answer.claim.expires_at_ms == NOW_MS + 5400


@pytest.mark.parametrize("way", WAYS)
def test_a_lapsed_one_hands_on_nothing(world: World, way: str) -> None:
    project = world.project
    first = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    world.clock.advance(1000)
    answer = getattr(project.sessions, way)(first.session.id, "claude")
    assert answer.claim is None
    assert project.claims.show("A").claim is None
    assert "claim.expired" in {event.type for event in answer.events}
    assert "claim.transferred" not in {event.type for event in answer.events}
    # Anybody may have it now, and the successor has no more right to it.
    project.sessions.start("A", "third", claim=True)
    with refused("claim_held"):
        project.claims.acquire(answer.session.id)


@pytest.mark.parametrize("way", WAYS)
def test_a_ttl_over_a_lapsed_one_asks_anew(world: World, way: str) -> None:
    project = world.project
    first = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    world.clock.advance(1000)
    project.sessions.start("A", "third", claim=True)
    before = world.everything()
    with refused("claim_held"):
        getattr(project.sessions, way)(first.session.id, "claude", ttl_ms=500)
    assert world.everything() == before


@pytest.mark.parametrize("way", WAYS)
def test_a_ttl_over_a_lapsed_one_that_is_free_acquires(world: World, way: str) -> None:
    """The successor has a claim of its own then, with a whole life, and none that was passed on."""
    project = world.project
    first = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    assert first.claim is not None
    world.clock.advance(1000)
    answer = getattr(project.sessions, way)(first.session.id, "claude", ttl_ms=500)
    assert answer.claim.expires_at_ms == NOW_MS + 1500
    assert answer.claim.fence == first.claim.fence + 1
    of_claims = [event for event in answer.events if event.type.startswith("claim.")]
    assert [event.type for event in of_claims] == ["claim.expired", "claim.acquired"]
    assert "from_claim" not in of_claims[1].body


def test_resume_without_a_claim_lets_it_go(world: World) -> None:
    project = world.project
    first = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    answer = project.sessions.resume(first.session.id, "claude", claim=False)
    assert answer.claim is None
    assert project.claims.show("A").claim is None


@pytest.mark.parametrize("way", WAYS)
def test_a_session_that_held_nothing_hands_on_nothing(world: World, way: str) -> None:
    project = world.project
    first = project.sessions.start("A", "codex").session.id
    project.sessions.start("A", "other", claim=True)
    assert getattr(project.sessions, way)(first, "claude").claim is None
    held = project.claims.show("A").claim
    assert held is not None
    assert (held.agent, held.state) == ("other", "active")
