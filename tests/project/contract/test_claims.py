"""Claims, on every kind of store: acquired, renewed, let go, lapsed, taken over, and repaired."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.project.project import Project
from callboard.project.records import Claim
from tests.project.contract.stores import Opened
from tests.project.world import NOW_MS, refused

LAST_TIME = 9_007_199_254_740_991
"""The greatest whole number that every JSON reader has exactly."""
WRONG: tuple[Any, ...] = (0, -1, 1.5, 1.0, "5", True, LAST_TIME + 1, 2**63)


def held(project: Project, work: str = "A", ttl_ms: int | None = None, who: str = "codex") -> Claim:
    claim = project.sessions.start(work, who, claim=True, ttl_ms=ttl_ms).claim
    assert claim is not None
    return claim


def on(project: Project, work: str = "A") -> Claim:
    claim = project.claims.show(work).claim
    assert claim is not None
    return claim


@pytest.mark.parametrize("ttl_ms", WRONG)
def test_no_other_time_to_live_makes_anything(opened: Opened, ttl_ms: Any) -> None:
    project = opened.project
    session = project.sessions.start("A", "codex").session.id
    other = held(project, "B", 5000).session
    before = project.info()
    for act in (
        lambda: project.sessions.start("A", "claude", claim=True, ttl_ms=ttl_ms),
        lambda: project.sessions.next("claude", ttl_ms=ttl_ms),
        lambda: project.claims.acquire(session, ttl_ms=ttl_ms),
        lambda: project.claims.renew(other, ttl_ms),
        lambda: project.sessions.handoff(other, "claude", ttl_ms=ttl_ms),
        lambda: project.sessions.resume(other, "claude", ttl_ms=ttl_ms),
    ):
        with refused("ttl_invalid"):
            act()
    assert project.info() == before
    assert len(project.sessions.list().sessions) == 2


def test_a_time_to_live_ends_at_the_last_time_there_is_and_not_later(opened: Opened) -> None:
    project = opened.project
    most = LAST_TIME - NOW_MS
    session = project.sessions.start("A", "codex").session.id
    before = project.info()
    with refused("ttl_invalid") as found:
        project.claims.acquire(session, ttl_ms=most + 1)
    assert found.value.details == {"now_ms": NOW_MS}
    with refused("ttl_invalid"):
        project.sessions.start("B", "codex", claim=True, ttl_ms=most + 1)
    assert project.info() == before
    assert project.claims.acquire(session, ttl_ms=most).claim.expires_at_ms == LAST_TIME
    with refused("ttl_invalid"):
        project.claims.renew(session, most + 1)
    assert on(project).expires_at_ms == LAST_TIME


def test_one_is_given_for_a_claim_only(opened: Opened) -> None:
    project = opened.project
    earlier = held(project).session
    before = project.info()
    with refused("ttl_invalid"):
        project.sessions.start("B", "codex", ttl_ms=5000)
    with refused("ttl_invalid"):
        project.sessions.resume(earlier, "claude", ttl_ms=5000, claim=False)
    with refused("ttl_invalid"):
        project.claims.renew(earlier, None)  # type: ignore[arg-type]
    assert project.info() == before


def test_a_claim_lapses_at_its_end_and_not_before(opened: Opened) -> None:
    project = opened.project
    claim = held(project, ttl_ms=1000)
    opened.clock.advance(999)
    assert on(project) == claim
    other = project.sessions.start("A", "claude").session.id
    with refused("claim_held") as found:
        project.claims.acquire(other)
    assert found.value.details == {
        "claim": claim.id,
        "work": "A",
        "session": claim.session,
        "agent": "codex",
        "branch": "main",
        "fence": 1,
        "expires_at_ms": NOW_MS + 1000,
    }
    opened.clock.advance(1)
    assert (on(project).state, on(project).released_at_ms) == ("expired", None)
    for act in (
        lambda: project.claims.renew(claim.session, 1000),
        lambda: project.claims.release(claim.session),
        lambda: project.work.complete("A", session=claim.session),
    ):
        with refused("claim_not_holder") as found:
            act()
        assert found.value.details["state"] == "expired"
    taken = project.claims.acquire(other, ttl_ms=50)
    assert [event.type for event in taken.events] == ["claim.expired", "claim.acquired"]
    assert taken.claim.fence == 2
    assert taken.events[0].session == claim.session
    assert taken.events[1].body["took_over"]["claim"] == claim.id
    assert taken.events[1].body["took_over"]["session"] == claim.session
    assert project.sessions.show(claim.session).session.state == "active"
    ended = project.sessions.show(claim.session).claim
    assert ended is not None
    assert (ended.state, ended.released_at_ms) == ("expired", NOW_MS + 1000)


def test_without_an_end_it_stays(opened: Opened) -> None:
    project = opened.project
    claim = held(project)
    opened.clock.advance(10**12)
    assert on(project) == claim
    with refused("claim_held"):
        project.sessions.start("A", "claude", claim=True)
    with refused("claim_not_expired"):
        project.doctor.expire_claim(claim.id, "too long", expected_revision=project.info().revision)


def test_renewing_counts_from_now(opened: Opened) -> None:
    project = opened.project
    claim = held(project, ttl_ms=1000)
    opened.clock.advance(400)
    renewed = project.claims.renew(claim.session, 1000)
    assert renewed.claim.expires_at_ms == NOW_MS + 1400
    assert (renewed.claim.id, renewed.claim.fence) == (claim.id, 1)
    assert renewed.events[0].type == "claim.renewed"
    assert renewed.events[0].body["before_expires_at_ms"] == NOW_MS + 1000
    # Also to an earlier end, and one that had none.
    assert project.claims.renew(claim.session, 1).claim.expires_at_ms == NOW_MS + 401
    endless = held(project, "B")
    assert project.claims.renew(endless.session, 7).claim.expires_at_ms == NOW_MS + 407


def test_only_who_holds_it_renews_or_lets_go(opened: Opened) -> None:
    project = opened.project
    holder = held(project).session
    other = project.sessions.start("A", "claude").session.id
    idle = project.sessions.start("B", "claude").session.id
    before = project.info()
    for session, state in ((other, "active"), (idle, None)):
        for act in (project.claims.release, lambda one: project.claims.renew(one, 1000)):
            with refused("claim_not_holder") as found:
                act(session)
            assert found.value.details.get("state") == state
    assert project.info() == before
    opened.clock.advance(3)
    let_go = project.claims.release(holder)
    assert (let_go.claim.state, let_go.claim.released_at_ms) == ("released", NOW_MS + 3)
    assert project.claims.show("A").claim is None
    taken = project.claims.acquire(other).claim
    assert (taken.fence, taken.acquired_at_ms) == (2, NOW_MS + 3)


def test_a_work_is_held_on_one_branch_only(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    held(project)
    with refused("claim_held") as found:
        project.sessions.start("A", "claude", branch="side", claim=True)
    assert found.value.details["branch"] == "main"
    assert held(project, "B").fence == 1


def test_one_worker_with_two_claims_keeps_and_loses_each_by_itself(opened: Opened) -> None:
    project = opened.project
    first, second = held(project, "A", 1000), held(project, "B", 1000)
    opened.clock.advance(500)
    project.claims.renew(first.session, 1000)
    assert on(project, "B") == second
    opened.clock.advance(500)
    # The other one has lapsed meanwhile; that neither ends the first one nor lets it go on longer.
    assert (on(project, "A").state, on(project, "B").state) == ("active", "expired")
    with refused("claim_not_holder"):
        project.claims.renew(second.session, 1000)
    assert on(project, "A").expires_at_ms == NOW_MS + 1500
    taken = held(project, "B", who="claude")
    project.claims.renew(first.session, 1000)
    project.claims.release(first.session)
    assert on(project, "B") == taken
    assert project.claims.show("A").claim is None


def test_a_lapsed_claim_is_repaired_and_nothing_else(opened: Opened) -> None:
    project = opened.project
    claim, other = held(project, ttl_ms=100), held(project, "B", 100)
    seen = project.info().revision
    with refused("claim_not_expired") as found:
        project.doctor.expire_claim(claim.id, "too early", expected_revision=seen)
    assert found.value.details == {
        "claim": claim.id,
        "state": "active",
        "expires_at_ms": NOW_MS + 100,
        "now_ms": NOW_MS,
    }
    opened.clock.advance(100)
    with refused("revision_conflict"):
        project.doctor.expire_claim(claim.id, "over", expected_revision=seen - 1)
    with refused("value_invalid"):
        project.doctor.expire_claim(
            claim.id,
            "over",
            expected_revision=None,  # type: ignore[arg-type]
        )
    for reason in ("", " ", "x" * 1001):
        with refused("text_invalid"):
            project.doctor.expire_claim(claim.id, reason, expected_revision=seen)
    with refused("not_found"):
        project.doctor.expire_claim("c_1", "over", expected_revision=seen)
    repaired = project.doctor.expire_claim(claim.id, "over", expected_revision=seen)
    assert (repaired.claim.state, repaired.claim.released_at_ms) == ("expired", NOW_MS + 100)
    assert repaired.event.body["reason"] == "over"
    assert repaired.event.body["repaired"] is True
    assert project.claims.show("A").claim is None
    assert on(project, "B").id == other.id
    assert project.sessions.show(claim.session).session.state == "active"
    with refused("claim_not_expired"):
        project.doctor.expire_claim(claim.id, "once more", expected_revision=seen + 1)


def test_the_doctor_says_what_stays_behind(opened: Opened) -> None:
    project = opened.project
    assert project.doctor.check().findings == ()
    claim = held(project, ttl_ms=10)
    idle = project.sessions.start("B", "claude").session.id
    opened.clock.advance(10)
    found = project.doctor.check()
    assert found.healthy
    assert found.project_revision == project.info().revision
    assert [(one.code, one.severity, one.subject) for one in found.findings] == [
        ("claim_expired", "warning", claim.id),
        ("session_open", "info", idle),
        ("session_open", "info", claim.session),
    ]
    assert Project.diagnose(opened.root).project_revision == found.project_revision


def test_a_renewal_may_be_one_that_never_shortens(opened: Opened) -> None:
    project = opened.project
    claim, endless = held(project, ttl_ms=600_000), held(project, "B")
    renew = project.claims.renew
    first = project.claims.renew(claim.session, 60_000, at_least=True)
    assert first.claim.expires_at_ms == NOW_MS + 600_000
    assert renew(endless.session, 60_000, at_least=True).claim.expires_at_ms is None
    opened.clock.advance(580_000)
    assert renew(claim.session, 60_000, at_least=True).claim.expires_at_ms == NOW_MS + 640_000
    assert on(project).expires_at_ms == NOW_MS + 640_000
    assert renew(claim.session, 60_000, at_least=False).claim.expires_at_ms == NOW_MS + 640_000
    assert renew(claim.session, 5, at_least=False).claim.expires_at_ms == NOW_MS + 580_005
