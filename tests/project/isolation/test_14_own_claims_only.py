"""Condition 14: a claim is released by its session alone, and ends with its session alone."""

from __future__ import annotations

import pytest

from tests.project.peers import from_the_door
from tests.project.world import NOW_MS, World, refused


def test_another_session_cannot_release_or_renew_it(world: World) -> None:
    project = world.project
    holder = project.sessions.start("A", "codex", claim=True)
    same_agent = project.sessions.start("A", "codex").session.id
    elsewhere = project.sessions.start("B", "codex").session.id
    before = world.everything()
    for session in (same_agent, elsewhere):
        with refused("claim_not_holder") as found:
            project.claims.release(session)
        assert found.value.details["session"] == session
        with refused("claim_not_holder"):
            project.claims.renew(session, 1000)
    with refused("claim_not_holder") as found:
        project.claims.release(same_agent)
    assert found.value.details["holder"] == holder.session.id
    assert world.everything() == before


def test_nobody_releases_a_lapsed_one(world: World) -> None:
    project = world.project
    holder = project.sessions.start("A", "codex", claim=True, ttl_ms=1000).session.id
    same_agent = project.sessions.start("A", "codex").session.id
    world.clock.advance(1000)
    before = world.everything()
    for session in (holder, same_agent):
        with refused("claim_not_holder") as found:
            project.claims.release(session)
        assert found.value.details["state"] == "expired"
    assert world.everything() == before
    # Nor once it was repaired, or somebody else has the work.
    claim = project.claims.show("A").claim
    assert claim is not None
    project.doctor.expire_claim(claim.id, "over", expected_revision=project.info().revision)
    with refused("claim_not_holder"):
        project.claims.release(holder)
    other = project.sessions.start("A", "claude", claim=True).session.id
    with refused("claim_not_holder") as found:
        project.claims.release(holder)
    assert found.value.details["holder"] == other


@pytest.mark.parametrize("way", ["end", "interrupt"])
def test_the_end_of_a_session_touches_only_its_own(world: World, way: str) -> None:
    project = world.project
    one = project.sessions.start("A", "codex", claim=True, ttl_ms=9000)
    two = project.sessions.start("B", "codex", claim=True, ttl_ms=9000)
    answer = getattr(project.sessions, way)(one.session.id)
    assert one.claim is not None
    assert [claim.id for claim in answer.closed_claims] == [one.claim.id]
    assert answer.closed_claims[0].state == "released"
    assert answer.session.ended_at_ms == NOW_MS
    assert project.claims.show("A").claim is None
    left = project.claims.show("B").claim
    assert left is not None
    assert (left.session, left.state) == (two.session.id, "active")


@pytest.mark.parametrize("way", ["end", "interrupt"])
def test_an_end_tells_that_the_claim_had_lapsed(world: World, way: str) -> None:
    project = world.project
    one = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    world.clock.advance(1000)
    answer = getattr(project.sessions, way)(one.session.id)
    assert [claim.state for claim in answer.closed_claims] == ["expired"]
    over = {"end": "session.ended", "interrupt": "session.interrupted"}[way]
    assert [event.type for event in answer.events] == ["claim.expired", over]


@pytest.mark.parametrize("way", ["end", "interrupt"])
def test_the_end_of_who_lost_it_leaves_the_new_owner_alone(world: World, way: str) -> None:
    project = world.project
    lost = project.sessions.start("A", "codex", claim=True, ttl_ms=1000).session.id
    world.clock.advance(1000)
    owner = project.sessions.start("A", "claude", claim=True).session.id
    assert getattr(project.sessions, way)(lost).closed_claims == ()
    held = project.claims.show("A").claim
    assert held is not None
    assert (held.session, held.state) == (owner, "active")
    with refused("session_not_active"):
        project.claims.acquire(lost)


def test_processes_that_release_at_once_release_once(world: World) -> None:
    session = world.project.sessions.start("A", "codex", claim=True).session.id
    peers = [world.peer() for _ in range(4)]
    answers = from_the_door(peers, "claims.release", [session] * 4)
    assert sorted("answer" in answer for answer in answers) == [False] * 3 + [True]
    assert {answer["error"]["code"] for answer in answers if "error" in answer} == {
        "claim_not_holder"
    }
    assert len(world.project.events.list(type="claim.released").events) == 1


@pytest.mark.parametrize("first", ["release", "end"])
def test_a_release_and_the_end_of_its_session_let_go_once(world: World, first: str) -> None:
    """Both are about to write before either of them does."""
    project = world.project
    session = project.sessions.start("A", "codex", claim=True).session.id
    other = project.sessions.start("B", "claude", claim=True)
    peers = {"release": world.peer(), "end": world.peer()}
    peers["release"].bring("claims.release", session)
    peers["end"].bring("sessions.end", session)
    answers = {}
    for name in sorted(peers, key=lambda name: name != first):
        peers[name].let_go()
        answers[name] = peers[name].answer()
    ended = answers["end"]["answer"]
    if first == "end":
        assert answers["release"]["error"]["code"] == "claim_not_holder"
        assert len(ended["closed_claims"]) == 1
    else:
        assert answers["release"]["answer"]["claim"]["state"] == "released"
        assert ended["closed_claims"] == []
    assert len(project.events.list(type="claim.released").events) == 1
    assert project.claims.show("A").claim is None
    assert project.claims.show("B").claim == other.claim
