"""Condition 12: who takes a lapsed claim over ends it for its old holder in the same change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.project.peers import all_at_once, from_the_door
from tests.project.world import NOW_MS, World

Compete = Callable[..., list[dict[str, Any]]]


def test_the_lapsed_one_and_the_new_owner_are_told_together(world: World) -> None:
    project = world.project
    first = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    assert first.claim is not None
    second = project.sessions.start("A", "claude").session.id
    world.clock.advance(1000)
    answer = project.claims.acquire(second, ttl_ms=500)
    old, new = answer.events
    assert (old.type, new.type) == ("claim.expired", "claim.acquired")
    assert old.revision == new.revision == answer.project_revision
    identity = {
        "claim": first.claim.id,
        "session": first.session.id,
        "agent": "codex",
        "branch": "main",
        "expires_at_ms": NOW_MS + 1000,
    }
    assert {name: old.body[name] for name in identity} == identity
    assert old.session == first.session.id
    assert new.body["took_over"] == identity
    assert (new.session, new.body["agent"]) == (second, "claude")
    assert answer.claim.fence == first.claim.fence + 1
    states = {row[2]: row[7] for row in world.rows("claims")}
    assert states == {first.claim.id: "expired", answer.claim.id: "active"}
    # The session that lost it is still there.
    assert project.sessions.show(first.session.id).session.state == "active"


def test_starting_with_a_claim_takes_over_too(world: World) -> None:
    project = world.project
    project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    world.clock.advance(5000)
    answer = project.sessions.start("A", "claude", claim=True)
    assert [event.type for event in answer.events] == [
        "session.started",
        "claim.expired",
        "claim.acquired",
    ]
    assert len({event.revision for event in answer.events}) == 1


@pytest.mark.parametrize("compete", [from_the_door, all_at_once])
def test_of_many_processes_one_takes_over(world: World, compete: Compete) -> None:
    project = world.project
    lapsed = project.sessions.start("A", "codex", claim=True, ttl_ms=1000).claim
    assert lapsed is not None
    peers = [world.peer(clock_ms=NOW_MS + 1000) for _ in range(6)]
    agents = [f"agent-{number}" for number in range(6)]
    answers = compete(peers, "sessions.start", ["A"] * 6, agents, claim=True, ttl_ms=60_000)
    won = [answer["answer"] for answer in answers if "answer" in answer]
    assert len(won) == 1
    codes = {answer["error"]["code"] for answer in answers if "error" in answer}
    assert codes == {"claim_held"}
    expired = project.events.list(type="claim.expired").events
    assert [event.body["claim"] for event in expired] == [lapsed.id]
    assert {event.revision for event in expired} == {won[0]["project_revision"]}
    assert won[0]["claim"]["fence"] == lapsed.fence + 1
