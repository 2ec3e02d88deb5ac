"""What every store answers about sessions, and what is refused with which code."""

from __future__ import annotations

import msgspec
import pytest

from callboard.project.records import Artifact
from tests.project.contract.stores import Opened
from tests.project.world import NOW_MS, SHA, refused


def test_a_session_has_the_documented_form(opened: Opened) -> None:
    answer = opened.project.sessions.start("A", "codex", provider="openai", model="x", claim=True)
    document = msgspec.to_builtins(answer)
    assert document["session"] == {
        "id": answer.session.id,
        "work": "A",
        "branch": "main",
        "agent": "codex",
        "provider": "openai",
        "model": "x",
        "state": "active",
        "predecessor": None,
        "started_at_ms": NOW_MS,
        "ended_at_ms": None,
        "outcome": None,
    }
    assert document["claim"] == {
        "id": document["claim"]["id"],
        "work": "A",
        "session": answer.session.id,
        "agent": "codex",
        "branch": "main",
        "state": "active",
        "fence": 1,
        "acquired_at_ms": NOW_MS,
        "expires_at_ms": None,
        "released_at_ms": None,
    }
    assert list(document["events"][0]) == (
        "id seq type work branch session revision at_ms body".split()
    )
    assert document["project_revision"] == opened.project.info().revision
    assert answer.session.id.startswith("s_")
    assert len(answer.session.id) == 34


def test_without_a_claim_there_is_none(opened: Opened) -> None:
    answer = opened.project.sessions.start("A", "codex")
    assert answer.claim is None
    assert [event.type for event in answer.events] == ["session.started"]


def test_a_checkpoint_is_kept_whole(opened: Opened) -> None:
    session = opened.project.sessions.start("A", "codex").session.id
    saved = opened.project.sessions.checkpoint(
        session,
        "half\tdone\n",
        "write the tests",
        open_loops=["one", "two"],
        context_sha256=SHA,
        artifacts=[Artifact(ref="dist/a.whl", sha256=SHA)],
        agent="codex",
    )
    shown = opened.open().sessions.show(session)
    assert shown.checkpoint == saved.checkpoint
    assert saved.checkpoint.open_loops == ("one", "two")
    assert saved.checkpoint.artifacts == (Artifact(ref="dist/a.whl", sha256=SHA),)
    assert saved.event.body["checkpoint"] == saved.checkpoint.id
    later = opened.project.sessions.checkpoint(session, "done", "end").checkpoint
    assert opened.project.sessions.show(session).checkpoint == later


def test_lists_go_by_pages_from_the_latest(opened: Opened) -> None:
    project = opened.project
    ids = [project.sessions.start("A", f"a{number}").session.id for number in range(5)]
    project.sessions.end(ids[2])
    first = project.sessions.list(limit=2)
    assert [one.id for one in first.sessions] == [ids[4], ids[3]]
    project.sessions.start("B", "later")
    second = project.sessions.list(limit=2, after=first.next)
    assert [one.id for one in second.sessions] == [ids[2], ids[1]]
    third = project.sessions.list(limit=2, after=second.next)
    assert [one.id for one in third.sessions] == [ids[0]]
    assert third.next is None
    active = project.sessions.list(active=True, work="A")
    assert [one.id for one in active.sessions] == [ids[4], ids[3], ids[1], ids[0]]
    assert project.sessions.list(agent="a1").sessions[0].id == ids[1]


def test_a_chain_of_sessions_goes_on_with_the_last_checkpoint(opened: Opened) -> None:
    project = opened.project
    first = project.sessions.start("A", "one", claim=True, ttl_ms=9000).session.id
    project.sessions.checkpoint(first, "half", "go on")
    second = project.sessions.handoff(first, "two").session.id
    project.sessions.interrupt(second)
    third = project.sessions.resume(second, "three")
    assert third.claim is None
    assert third.session.predecessor == second
    shown = project.sessions.show(third.session.id)
    assert shown.checkpoint is not None
    assert shown.checkpoint.session == first
    states = [project.sessions.show(one).session.state for one in (first, second)]
    assert states == ["handed_off", "interrupted"]


def test_an_interrupted_session_may_end_if_nobody_goes_on(opened: Opened) -> None:
    project = opened.project
    one = project.sessions.start("A", "codex").session.id
    project.sessions.interrupt(one)
    assert project.sessions.end(one, outcome="given up").session.state == "ended"
    two = project.sessions.start("A", "codex").session.id
    project.sessions.interrupt(two)
    project.sessions.resume(two, "claude")
    with refused("session_not_active"):
        project.sessions.end(two)


@pytest.mark.parametrize("state", ["ended", "interrupted", "handed_off"])
def test_what_is_over_takes_nothing_more(opened: Opened, state: str) -> None:
    project = opened.project
    session = project.sessions.start("A", "codex").session.id
    if state == "handed_off":
        project.sessions.handoff(session, "claude")
    else:
        getattr(project.sessions, {"ended": "end", "interrupted": "interrupt"}[state])(session)
    for act in (
        lambda: project.sessions.checkpoint(session, "x", "y"),
        lambda: project.sessions.interrupt(session),
        lambda: project.claims.acquire(session),
        lambda: project.claims.renew(session, 1000),
        lambda: project.events.append("note.taken", {}, session=session),
        lambda: project.evidence.add("test", "x", session=session),
    ):
        with refused("session_not_active") as found:
            act()
        assert found.value.details["state"] == state


def test_what_nobody_knows_is_not_found(opened: Opened) -> None:
    project = opened.project
    for act in (
        lambda: project.sessions.start("Z", "codex"),
        lambda: project.sessions.start("A", "codex", branch="nowhere"),
        lambda: project.sessions.show("s_1"),
        lambda: project.sessions.show(),
        lambda: project.sessions.end("s_1"),
        lambda: project.claims.show("Z"),
        lambda: project.branches.select("nowhere"),
        lambda: project.work.show("Z"),
        lambda: project.receipts.show("r1"),
    ):
        with refused("not_found"):
            act()
    with refused("not_found") as found:
        project.work.show("a")
    assert found.value.details["similar"] == "A"
