"""Condition 10: the expected revision is compared in the writing transaction; refreshing it does
not get past a live claim."""

from __future__ import annotations

from tests.ambient import DEEP
from tests.project.peers import all_at_once, from_the_door
from tests.project.world import World, refused

ROUNDS = 30 if DEEP else 5


def test_a_stale_revision_changes_nothing(world: World) -> None:
    project = world.project
    seen = project.info().revision
    project.events.append("note.taken", {})
    before = world.everything()
    for expected in (seen, seen + 5, 0):
        with refused("revision_conflict") as found:
            project.sessions.start("A", "codex", claim=True, expected_revision=expected)
        assert found.value.details == {"expected": expected, "actual": seen + 1}
    assert world.everything() == before
    project.sessions.start("A", "codex", claim=True, expected_revision=seen + 1)


def test_of_those_who_saw_the_same_revision_one_goes_on(world: World) -> None:
    peers = [world.peer() for _ in range(6)]
    for round in range(ROUNDS):
        compete = all_at_once if round else from_the_door
        seen = world.project.info().revision
        bodies = [{"n": number} for number in range(len(peers))]
        answers = compete(
            peers, "events.append", ["note.taken"] * len(peers), bodies, expected_revision=seen
        )
        won = [answer for answer in answers if "answer" in answer]
        assert len(won) == 1
        assert won[0]["answer"]["project_revision"] == seen + 1
        for answer in answers:
            if "error" in answer:
                assert answer["error"]["code"] == "revision_conflict"
                assert answer["error"]["details"] == {"expected": seen, "actual": seen + 1}
        assert world.project.info().revision == seen + 1


def test_who_refreshes_still_meets_the_claim(world: World) -> None:
    one, two = world.peer(), world.peer()
    seen = world.project.info().revision
    start = {"claim": True, "ttl_ms": 60_000, "expected_revision": seen}
    first, second = from_the_door([one, two], "sessions.start", ["A", "A"], ["x", "y"], **start)
    lost = first if "error" in first else second
    won = second if "error" in first else first
    assert lost["error"]["code"] == "revision_conflict"
    loser = one if lost is first else two
    fresh = lost["error"]["details"]["actual"]
    again = loser.ask("sessions.start", "A", "z", claim=True, expected_revision=fresh)
    assert again["error"]["code"] == "claim_held"
    claim = won["answer"]["claim"]
    assert again["error"]["details"]["session"] == claim["session"]
    assert again["error"]["details"]["expires_at_ms"] == claim["expires_at_ms"]
    assert world.project.info().revision == fresh
