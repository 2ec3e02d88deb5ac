"""A lease that lapsed: how it is shown, and what becomes of the work of who had it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.world import NOW_MS, World, refused
from tests.surfaces.project.shared import Shared


def begun(world: World) -> str:
    """A session at A whose lease has lapsed, with evidence of everything that A asks for."""
    project = world.project
    session = project.sessions.start("A", "codex", claim=True, ttl_ms=8000).session.id
    project.evidence.add("t", "s", session=session, covers=["it runs", "it is told of"])
    world.clock.advance(8000)
    return session


def test_a_lapsed_lease_is_counted_and_shown_as_expired_by_every_reading(world: World) -> None:
    project = world.project
    session = begun(world)
    running = project.sessions.start("B", "codex", claim=True).session.id
    assert project.status().counts["claims"] == {"active": 1, "expired": 1}
    claim = project.claims.show("A").claim
    assert claim is not None
    assert (claim.state, claim.released_at_ms, claim.expires_at_ms) == (
        "expired",
        None,
        NOW_MS + 8000,
    )
    assert project.sessions.show(session).claim == claim
    assert project.work.show("A").work.claim == claim
    held = {one.key: one.claim and one.claim.state for one in project.work.list().work}
    assert held == {"A": "expired", "B": "active", "C": None}
    assert "A" in [one.key for one in project.status().ready]
    # The session itself goes on; only its hold is over.
    assert [one.id for one in project.sessions.list(active=True).sessions] == [running, session]


@pytest.fixture
def lapsed(tmp_path: Path) -> Shared:
    shared = Shared(tmp_path / "demo").begin()
    shared.ask("session", "start", "--work", "A", "--agent", "codex", "--claim", "--ttl-ms", "1")
    return shared


def test_a_lapsed_lease_is_called_so_by_claim_show(lapsed: Shared) -> None:
    said = lapsed.call("claim", "show", "--work", "A").stdout
    assert "held by codex, lease lapsed at " in said


def test_a_lapsed_lease_is_called_so_by_status(lapsed: Shared) -> None:
    assert lapsed.ask("status")["counts"]["claims"] == {"expired": 1}
    said = lapsed.call("status").stdout
    assert "lease lapsed" in said
    assert "running" not in said


def test_a_lapsed_lease_is_called_so_by_session_list(lapsed: Shared) -> None:
    assert "lapsed" in lapsed.call("session", "list").stdout


def test_the_result_of_who_lost_the_lease_is_refused_and_the_session_may_end(world: World) -> None:
    project = world.project
    session = begun(world)
    with refused("claim_not_holder") as found:
        project.work.complete("A", session=session)
    assert found.value.details["state"] == "expired"
    assert project.events.list(type="work.completed").events == ()
    # What it found out is kept all the same.
    project.sessions.checkpoint(session, "all of it", "somebody has to say so")
    ended = project.sessions.end(session, outcome="too late")
    assert [(one.state, one.released_at_ms) for one in ended.closed_claims] == [
        ("expired", NOW_MS + 8000)
    ]
    assert ended.session.state == "ended"


def test_who_takes_the_lapsed_lease_again_may_complete(world: World) -> None:
    project = world.project
    session = begun(world)
    assert project.claims.acquire(session).claim.fence == 2
    assert project.work.complete("A", session=session).work.completed


def test_who_lost_the_lease_to_somebody_else_completes_nothing(world: World) -> None:
    project = world.project
    session = begun(world)
    other = project.sessions.start("A", "claude", claim=True, ttl_ms=8000).session.id
    for act in (
        lambda: project.work.complete("A", session=session),
        lambda: project.claims.renew(session, 8000),
        lambda: project.claims.release(session),
    ):
        with refused("claim_not_holder") as found:
            act()
        assert found.value.details["holder"] == other
    before = project.claims.show("A").claim
    assert project.sessions.end(session).closed_claims == ()
    assert project.claims.show("A").claim == before
    assert project.work.complete("A", session=other).event.session == other


def test_of_one_worker_with_two_claims_renewing_one_never_touches_the_other(world: World) -> None:
    """In one process that renews the one while the other lapses, and another process takes it."""
    project = world.project
    kept = project.sessions.start("A", "codex", claim=True, ttl_ms=1000).session.id
    left = project.sessions.start("B", "codex", claim=True, ttl_ms=1000).session.id
    other = world.peer()
    rival = other.ask("sessions.start", "B", "claude")["answer"]["session"]["id"]
    for turn in range(1, 11):
        # A tenth of a lease at a time: the one is renewed at each, the other never.
        world.clock.advance(100)
        other.ask("advance", 100)
        assert project.claims.renew(kept, 1000).claim.expires_at_ms == NOW_MS + turn * 100 + 1000
        claim = project.claims.show("B").claim
        assert claim is not None
        assert (claim.session, claim.expires_at_ms) == (left, NOW_MS + 1000)
        assert claim.state == ("active" if turn < 10 else "expired")
        taken = other.ask("claims.acquire", rival)
        if turn < 10:
            assert taken["error"]["code"] == "claim_held"
        else:
            assert taken["answer"]["claim"]["fence"] == 2
    with refused("claim_not_holder"):
        project.claims.renew(left, 1000)
    assert project.claims.renew(kept, 1000).claim.state == "active"
    project.claims.release(kept)
    after = project.claims.show("B").claim
    assert after is not None
    assert after.session == rival
