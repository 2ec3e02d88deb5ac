"""Who goes on where somebody stopped, and what is handed on, on every kind of store."""

from __future__ import annotations

import pytest

from callboard.project.project import Project
from tests.project.contract.stores import Opened
from tests.project.world import NOW_MS, refused


def hand(project: Project, how: str, session: str, ttl_ms: int | None = None) -> object:
    if how == "handoff":
        return project.sessions.handoff(session, "claude", provider="p", model="m", ttl_ms=ttl_ms)
    return project.sessions.resume(session, "claude", provider="p", model="m", ttl_ms=ttl_ms)


def begun(project: Project, ttl_ms: int | None = None) -> str:
    return project.sessions.start("A", "codex", claim=True, ttl_ms=ttl_ms).session.id


@pytest.mark.parametrize("how", ["handoff", "resume"])
@pytest.mark.parametrize(
    ("ttl_ms", "new_ms", "end"),
    [
        (1000, None, NOW_MS + 1000),
        (1000, 5000, NOW_MS + 400 + 5000),
        (None, None, None),
        (None, 5000, NOW_MS + 400 + 5000),
    ],
)
def test_a_live_claim_goes_over(
    opened: Opened, how: str, ttl_ms: int | None, new_ms: int | None, end: int | None
) -> None:
    project = opened.project
    first = begun(project, ttl_ms)
    opened.clock.advance(400)
    hand(project, how, first, new_ms)
    claim = project.claims.show("A").claim
    assert claim is not None
    after = project.sessions.show(claim.session).session
    assert (after.predecessor, after.agent, after.provider) == (first, "claude", "p")
    assert (claim.fence, claim.acquired_at_ms, claim.expires_at_ms) == (2, NOW_MS + 400, end)
    earlier = project.sessions.show(first)
    assert earlier.session.state == {"handoff": "handed_off", "resume": "interrupted"}[how]
    assert earlier.claim is not None
    assert (earlier.claim.state, earlier.claim.fence) == ("transferred", 1)
    with refused("claim_not_holder"):
        project.claims.release(first)


@pytest.mark.parametrize("how", ["handoff", "resume"])
def test_a_lapsed_claim_gives_nothing(opened: Opened, how: str) -> None:
    project = opened.project
    first = begun(project, 400)
    opened.clock.advance(400)
    hand(project, how, first)
    assert project.claims.show("A").claim is None
    earlier = project.sessions.show(first).claim
    assert earlier is not None
    assert earlier.state == "expired"


@pytest.mark.parametrize("how", ["handoff", "resume"])
def test_after_a_lapse_the_work_is_asked_for_like_anybody_does(opened: Opened, how: str) -> None:
    project = opened.project
    first = begun(project, 400)
    opened.clock.advance(400)
    hand(project, how, first, 50)
    claim = project.claims.show("A").claim
    assert claim is not None
    assert (claim.fence, claim.expires_at_ms) == (2, NOW_MS + 450)
    second = project.sessions.start("B", "codex", claim=True, ttl_ms=10).session.id
    opened.clock.advance(10)
    holder = project.sessions.start("B", "other", claim=True).session.id
    before = project.info()
    with refused("claim_held") as found:
        hand(project, how, second, 50)
    assert found.value.details["session"] == holder
    assert project.info() == before


def test_resumed_without_its_claim_the_work_is_let_go(opened: Opened) -> None:
    project = opened.project
    first = begun(project)
    answer = project.sessions.resume(first, "claude", claim=False)
    assert answer.claim is None
    assert project.claims.show("A").claim is None
    earlier = project.sessions.show(first).claim
    assert earlier is not None
    assert earlier.state == "released"


def test_each_has_one_successor(opened: Opened) -> None:
    project = opened.project
    first = begun(project)
    second = project.sessions.handoff(first, "claude").session.id
    for how in ("handoff", "resume"):
        with refused("successor_exists") as found:
            hand(project, how, first)
        assert found.value.details == {"session": first, "successor": second}
    project.sessions.end(second)
    for how in ("handoff", "resume"):
        with refused("session_not_active") as found:
            hand(project, how, second)
        assert found.value.details["state"] == "ended"


def test_one_goes_on_on_the_branch_of_the_one_before(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    first = project.sessions.start("A", "codex", branch="side").session.id
    with refused("branch_not_current") as found:
        project.sessions.resume(first, "claude")
    assert found.value.details == {"session": first, "branch": "side", "selected": "main"}
    assert project.sessions.handoff(first, "claude").session.branch == "side"
    second = project.sessions.list(active=True).sessions[0].id
    project.sessions.interrupt(second)
    with refused("session_not_active"):
        project.sessions.handoff(second, "other")
    project.branches.select("side")
    third = project.sessions.resume(second, "other").session
    assert (third.branch, third.predecessor) == ("side", second)


def test_a_session_that_is_over_lets_its_own_claim_go_only(opened: Opened) -> None:
    project = opened.project
    first = begun(project, 100)
    other = project.sessions.start("B", "codex", claim=True).claim
    opened.clock.advance(100)
    third = project.sessions.start("A", "claude", claim=True).claim
    # It lost its work to somebody else, and ends all the same.
    ended = project.sessions.end(first, outcome="too late")
    assert ended.closed_claims == ()
    assert ended.session.ended_at_ms == NOW_MS + 100
    assert project.claims.show("A").claim == third
    assert project.claims.show("B").claim == other
    assert other is not None
    stopped = project.sessions.interrupt(other.session)
    assert [(one.id, one.state) for one in stopped.closed_claims] == [(other.id, "released")]
    assert project.claims.show("A").claim == third
