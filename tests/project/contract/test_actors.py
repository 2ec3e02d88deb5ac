"""Who declared to act, on every kind of store: what the record keeps of it."""

from __future__ import annotations

from tests.project.contract.stores import Opened
from tests.project.world import refused


def test_whoever_acts_for_a_session_of_another_agent_is_kept(opened: Opened) -> None:
    session = opened.open(actor="p").sessions.start("A", "p", claim=True, ttl_ms=500).session.id
    other = opened.open(actor="z2")
    renewed = other.claims.renew(session, 900)
    added = other.evidence.add("t", "s", session=session, covers=["it runs", "it is told of"])
    done = other.work.complete("A", session=session)
    ended = other.sessions.end(session)
    told = [*renewed.events, added.event, done.event, *ended.events]
    assert [one.type for one in told] == [
        "claim.renewed",
        "evidence.added",
        "work.completed",
        "claim.released",
        "session.ended",
    ]
    assert {one.body["by"] for one in told} == {"z2"}
    # What was the session's stays the session's.
    assert added.evidence.agent == "p"


def test_an_agent_at_its_own_session_is_named_once(opened: Opened) -> None:
    project = opened.open(actor="p")
    started = project.sessions.start("A", "p", claim=True)
    ended = project.sessions.end(started.session.id)
    assert [one.body.get("by") for one in (*started.events, *ended.events)] == [None] * 4


def test_nobody_is_named_where_nobody_declared_anything(opened: Opened) -> None:
    project = opened.project
    session = project.sessions.start("A", "p").session.id
    assert "by" not in project.sessions.end(session).events[-1].body
    assert project.evidence.add("t", "s", work="A").evidence.agent is None
    assert "by" not in project.branches.create("side").event.body


def test_what_belongs_to_no_session_has_who_declared_it(opened: Opened) -> None:
    project = opened.open(actor="z2")
    assert project.branches.create("side").event.body["by"] == "z2"
    added = project.evidence.add("t", "s", work="A")
    assert added.evidence.agent == "z2"
    assert "by" not in added.event.body
    assert project.evidence.list().evidence[0].agent == "z2"


def test_a_takeover_has_who_took_over(opened: Opened) -> None:
    opened.open(actor="p").sessions.start("A", "p", claim=True, ttl_ms=500)
    opened.clock.advance(500)
    taken = opened.open(actor="q").sessions.start("A", "q", claim=True)
    assert [(one.type, one.body.get("by")) for one in taken.events] == [
        ("session.started", None),
        ("claim.expired", "q"),
        ("claim.acquired", None),
    ]


def test_an_observation_stays_as_it_was_given(opened: Opened) -> None:
    project = opened.open(actor="z2")
    body = {"by": "somebody", "a": 1}
    assert project.events.append("note.taken", body, request_id="r").event.body == body
    assert project.events.append("note.taken", {}).event.body == {}
    assert project.receipts.show("r").receipt.actor == "z2"


def test_a_request_that_is_not_there_is_not_said_to_be_undone(opened: Opened) -> None:
    opened.open(actor="ann").branches.create("side", request_id="r")
    with refused("not_found") as found:
        opened.open(actor="bob").receipts.show("r")
    assert "'bob'" in found.value.hint
    assert "ann" not in found.value.hint
    assert "nothing was done" not in found.value.hint
