"""Taking a project's time back to the clock's, after the clock had been far ahead once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.project.records import Claim
from tests.project import indexing
from tests.project.peers import all_at_once
from tests.project.world import NOW_MS, World, item, refused

YEAR_MS = 365 * 86_400_000


def claim_on(world: World, work: str) -> Claim:
    """The claim on a piece of work, which somebody has."""
    found = world.project.claims.show(work).claim
    assert found is not None
    return found


def finding(world: World, code: str) -> Any:
    """What the doctor says of that kind, or None."""
    found = world.project.doctor.check()
    assert found.healthy
    return next((one for one in found.findings if one.code == code), None)


def astray(world: World) -> None:
    """A change a year ahead, after which the clock is right again, ten seconds on."""
    world.clock.advance(YEAR_MS)
    world.project.events.append("note.taken", {})
    world.clock.advance(10_000 - YEAR_MS)


def test_back_to_the_first_moment_no_claim_begins_before_time(world: World) -> None:
    project = world.project
    session = project.sessions.start("A", "codex", claim=True, ttl_ms=1000).session.id
    project.sessions.start("B", "codex", claim=True, ttl_ms=9000)
    world.clock.advance(2000)
    project.events.append("note.taken", {})
    world.clock.advance(-world.clock.now_ms())
    assert world.clock.now_ms() == 0
    project.doctor.correct_clock("it began again", expected_revision=project.info().revision)
    lapsed, live = claim_on(world, "A"), claim_on(world, "B")
    assert (lapsed.state, lapsed.acquired_at_ms, lapsed.expires_at_ms) == ("expired", 0, 1)
    assert (live.state, live.acquired_at_ms, live.expires_at_ms) == ("active", 1, 7001)
    with refused("claim_not_holder"):
        project.claims.renew(session, 1000)


def test_leases_lapse_again_after_it(world: World) -> None:
    project = world.project
    astray(world)
    session = project.sessions.start("A", "codex", claim=True, ttl_ms=1000).session.id
    world.clock.advance(86_400_000)
    assert claim_on(world, "A").state == "active"
    found = finding(world, "clock_behind")
    revision = project.info().revision
    assert f"doctor repair clock --expected-revision {revision} --reason" in found.hint
    answer = project.doctor.correct_clock("the battery was empty", expected_revision=revision)
    assert (answer.before_ms, answer.after_ms) == (NOW_MS + YEAR_MS, world.clock.now_ms())
    assert answer.before_ms - answer.after_ms == found.details["behind_ms"]
    assert finding(world, "clock_behind") is None
    world.clock.advance(999)
    assert claim_on(world, "A").state == "active"
    with refused("claim_held"):
        project.claims.acquire(project.sessions.start("A", "claude").session.id)
    world.clock.advance(1)
    assert claim_on(world, "A").state == "expired"
    with refused("claim_not_holder"):
        project.claims.renew(session, 1000)
    taken = project.sessions.start("A", "claude", claim=True, ttl_ms=1000).claim
    assert taken is not None
    assert taken.expires_at_ms == world.clock.now_ms() + 1000


def test_it_is_one_revision_with_one_event(world: World) -> None:
    project = world.project
    astray(world)
    before = project.events.list(limit=500).events
    revision = project.info().revision
    answer = project.doctor.correct_clock("why not", expected_revision=revision, request_id="r1")
    assert answer.project_revision == revision + 1 == project.info().revision
    after = project.events.list(limit=500).events
    assert after == (*before, answer.event)
    assert (answer.event.type, answer.event.seq) == ("project.clock_repaired", before[-1].seq + 1)
    # The one change that happens before the one it follows.
    assert answer.event.at_ms == NOW_MS + 10_000 < before[-1].at_ms
    assert answer.event.body == {
        "before_ms": NOW_MS + YEAR_MS,
        "after_ms": NOW_MS + 10_000,
        "moved_claims": 0,
        "reason": "why not",
    }
    # A repeated request is no second repair, and a receipt has the time that is right now.
    again = project.doctor.correct_clock("why not", expected_revision=revision, request_id="r1")
    assert again == answer
    assert project.receipts.show("r1").receipt.at_ms == NOW_MS + 10_000
    with refused("event_type_reserved"):
        project.events.append("project.clock_repaired", {})


def test_claims_keep_who_they_are_and_what_they_have_left(world: World) -> None:
    project = world.project
    indexing.replace(project, [item(key) for key in "ABCDE"])
    before_it = project.sessions.start("A", "codex", claim=True, ttl_ms=60_000).claim
    long_before = project.sessions.start("B", "codex", claim=True, ttl_ms=YEAR_MS + 60_000).claim
    world.clock.advance(YEAR_MS)
    live = project.sessions.start("C", "codex", claim=True, ttl_ms=5000).claim
    endless = project.sessions.start("D", "codex", claim=True).claim
    short = project.sessions.start("E", "codex", claim=True, ttl_ms=1000).claim
    world.clock.advance(2000)
    project.events.append("note.taken", {})
    world.clock.advance(10_000 - 2000 - YEAR_MS)
    revision = project.info().revision
    answer = project.doctor.correct_clock("reason", expected_revision=revision)
    now = NOW_MS + 10_000
    # A and E had lapsed, and stay so, although the end of A lies ahead by the clock that is right.
    assert answer.moved_claims == 4
    ends = {
        key: (claim_on(world, key).expires_at_ms, claim_on(world, key).state) for key in "ABCDE"
    }
    assert ends == {
        "A": (now, "expired"),
        "B": (now + 58_000, "active"),
        "C": (now + 3000, "active"),
        "D": (None, "active"),
        "E": (now, "expired"),
    }
    for first in (before_it, long_before, live, endless, short):
        assert first is not None
        found = claim_on(world, first.work)
        assert (found.id, found.session, found.fence) == (first.id, first.session, first.fence)
        assert found.acquired_at_ms <= now
        assert found.released_at_ms is None
    # What was told of them stays told.
    told = project.events.list(type="claim.acquired", work="C").events[0]
    assert told.body["expires_at_ms"] == NOW_MS + YEAR_MS + 5000


def test_no_claim_gains_by_it(world: World) -> None:
    """Forty claims, taken and renewed at drawn moments before and after the clock went astray."""
    project = world.project
    drawn = random.Random(7)
    works = [f"W{number}" for number in range(40)]
    indexing.replace(project, [item(key) for key in works])
    sessions = {}
    for half in (works[:20], works[20:]):
        for key in half:
            world.clock.advance(drawn.randrange(100))
            ttl_ms = drawn.choice([None, 1, 500, 5000, 2 * YEAR_MS])
            sessions[key] = project.sessions.start(key, "x", claim=True, ttl_ms=ttl_ms).session.id
        world.clock.advance(YEAR_MS // 2)
    for key in drawn.sample(works, 15):
        if claim_on(world, key).state == "active":
            project.claims.renew(sessions[key], drawn.choice([1, 700, 3 * YEAR_MS]))
            world.clock.advance(drawn.randrange(300))
    project.events.append("note.taken", {})
    astray_ms = world.clock.now_ms()
    world.clock.advance(-YEAR_MS)
    before = {key: claim_on(world, key) for key in works}
    assert {claim.state for claim in before.values()} == {"active", "expired"}
    project.doctor.correct_clock("x", expected_revision=project.info().revision)
    for key, first in before.items():
        after = claim_on(world, key)
        assert (after.id, after.state, after.fence) == (first.id, first.state, first.fence)
        if first.expires_at_ms is None:
            assert after.expires_at_ms is None
            continue
        assert after.expires_at_ms is not None
        left = after.expires_at_ms - world.clock.now_ms()
        if first.state == "active":
            assert left == first.expires_at_ms - astray_ms
        else:
            assert left <= 0
            assert after.expires_at_ms <= first.expires_at_ms


def test_there_must_be_something_to_repair(world: World) -> None:
    project = world.project
    revision = project.info().revision
    before = world.everything()
    for ahead_ms in (0, 1, 1000):
        world.clock.advance(ahead_ms)
        with refused("clock_not_behind"):
            project.doctor.correct_clock("just so", expected_revision=revision)
    assert world.everything() == before


def test_it_needs_the_revision_and_a_reason(world: World) -> None:
    project = world.project
    astray(world)
    revision = project.info().revision
    before = world.everything()
    with refused("revision_conflict"):
        project.doctor.correct_clock("why", expected_revision=revision - 1)
    for reason in ("", "  \n", "\x1b[2J", "x" * 1001):
        with refused("text_invalid"):
            project.doctor.correct_clock(reason, expected_revision=revision)
    nothing: Any = None
    with pytest.raises(CallboardError, match="value_invalid"):
        project.doctor.correct_clock("why", expected_revision=nothing)
    assert world.everything() == before


def test_of_two_who_repair_it_one_does(world: World) -> None:
    astray(world)
    revision = world.project.info().revision
    peers = [world.peer(), world.peer()]
    answers = all_at_once(peers, "doctor.correct_clock", ["one", "two"], expected_revision=revision)
    assert sorted("answer" in answer for answer in answers) == [False, True]
    lost = next(answer["error"]["code"] for answer in answers if "error" in answer)
    assert lost == "revision_conflict"
    assert len(world.project.events.list(type="project.clock_repaired").events) == 1
