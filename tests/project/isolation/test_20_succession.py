"""Condition 20: handoff keeps work and branch, and the checkpoint its owner; resume needs its
branch to be current, and each session has one successor; a closed branch takes nothing new;
evidence of another branch is history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from callboard.clock import FixedClock
from callboard.project.operations_table import OPERATIONS
from callboard.project.project import Project
from callboard.project.source.answers import SetFields
from tests.project.peers import from_the_door
from tests.project.world import World, refused


def test_a_handoff_keeps_work_branch_and_the_owner_of_the_checkpoint(world: World) -> None:
    project = world.project
    project.branches.create("side")
    first = project.sessions.start("A", "codex", branch="side").session.id
    saved = project.sessions.checkpoint(first, "half", "go on", open_loops=["x"], agent="codex")
    answer = project.sessions.handoff(first, "claude", provider="p", model="m")
    after = answer.session
    assert (after.work, after.branch, after.predecessor) == ("A", "side", first)
    assert (after.agent, after.provider, after.model) == ("claude", "p", "m")
    assert project.sessions.show(first).session.state == "handed_off"
    inherited = project.sessions.show(after.id).checkpoint
    assert inherited == saved.checkpoint
    assert (inherited.session, inherited.agent) == (first, "codex")


@pytest.mark.parametrize("first", ["handoff", "resume"])
@pytest.mark.parametrize("then", ["handoff", "resume"])
def test_there_is_one_successor(world: World, first: str, then: str) -> None:
    project = world.project
    session = project.sessions.start("A", "codex").session.id
    follower = getattr(project.sessions, first)(session, "claude").session.id
    before = world.everything()
    with refused("successor_exists") as found:
        getattr(project.sessions, then)(session, "third")
    assert found.value.details["successor"] == follower
    assert world.everything() == before


@pytest.mark.parametrize("way", ["handoff", "resume"])
def test_of_many_processes_one_goes_on(world: World, way: str) -> None:
    project = world.project
    session = project.sessions.start("A", "codex", claim=True).session.id
    peers = [world.peer() for _ in range(4)]
    agents = [f"agent-{number}" for number in range(4)]
    answers = from_the_door(peers, f"sessions.{way}", [session] * 4, agents)
    won = [answer["answer"]["session"]["id"] for answer in answers if "answer" in answer]
    assert len(won) == 1
    lost = [answer["error"] for answer in answers if "error" in answer]
    assert {error["code"] for error in lost} == {"successor_exists"}
    assert {error["details"]["successor"] for error in lost} == set(won)


def test_a_branch_that_is_selected_meanwhile_is_the_current_one(world: World) -> None:
    project = world.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex").session.id
    late = world.peer()
    late.bring("sessions.resume", session, "claude")
    project.branches.select("side")
    late.let_go()
    assert late.answer()["error"]["code"] == "branch_not_current"


def test_resume_needs_its_branch_to_be_current(world: World) -> None:
    project = world.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", branch="side").session.id
    project.sessions.interrupt(session)
    before = world.everything()
    with refused("branch_not_current") as found:
        project.sessions.resume(session, "claude")
    assert found.value.details["branch"] == "side"
    assert world.everything() == before
    project.branches.select("side")
    assert project.sessions.resume(session, "claude").session.branch == "side"


def test_what_has_ended_is_not_resumed(world: World) -> None:
    project = world.project
    session = project.sessions.start("A", "codex").session.id
    project.sessions.end(session)
    for way in ("resume", "handoff"):
        with refused("session_not_active"):
            getattr(project.sessions, way)(session, "claude")


@dataclass(frozen=True)
class Closed:
    """A closed branch `side`, still selected: a session that holds `A` there, an idle one and an
    interrupted one at `B`, a claim on `C` that has lapsed, and work files that could be indexed."""

    project: Project
    clock: FixedClock
    held: str
    idle: str
    stopped: str
    lapsed: str


@pytest.fixture
def closed(world: World) -> Closed:
    project = world.project
    project.branches.create("side")
    project.branches.select("side")
    held = project.sessions.start("A", "codex", claim=True, ttl_ms=9000).session.id
    idle = project.sessions.start("B", "codex").session.id
    stopped = project.sessions.start("B", "other").session.id
    project.sessions.interrupt(stopped, request_id="r-stop")
    lapsed = project.sessions.start("C", "codex", claim=True, ttl_ms=1).claim
    assert lapsed is not None
    for criterion in ("it runs", "it is told of"):
        project.evidence.add("test", "green", session=held, covers=[criterion])
    world.clock.advance(1)
    project.branches.close("side")
    (world.root / "work.yaml").write_text("work_items: [{id: A, title: One}]\n")
    return Closed(project, world.clock, held, idle, stopped, lapsed.id)


Acts = tuple[Callable[[Closed], object], ...]


def _correct_clock(on: Closed) -> object:
    # The time of what was written last is ahead of the clock then.
    on.clock.advance(-1)
    seen = on.project.info().revision
    return on.project.doctor.correct_clock("it was ahead", expected_revision=seen)


# Whatever would begin or say something new on the branch.
REFUSED: dict[str, Acts] = {
    "session start": (
        lambda on: on.project.sessions.start("B", "codex"),
        lambda on: on.project.sessions.start("B", "codex", branch="side"),
        lambda on: on.project.sessions.start("C", "codex", claim=True),
    ),
    "session next": (
        lambda on: on.project.sessions.next("codex"),
        lambda on: on.project.sessions.next("codex", branch="side"),
    ),
    "session handoff": (lambda on: on.project.sessions.handoff(on.held, "claude"),),
    "session resume": (
        lambda on: on.project.sessions.resume(on.held, "claude"),
        lambda on: on.project.sessions.resume(on.stopped, "claude"),
    ),
    "session interrupt": (lambda on: on.project.sessions.interrupt(on.held),),
    "claim acquire": (lambda on: on.project.claims.acquire(on.idle),),
    "claim renew": (lambda on: on.project.claims.renew(on.held, 1000),),
    "event append": (
        lambda on: on.project.events.append("note.taken", {}),
        lambda on: on.project.events.append("note.taken", {}, branch="side"),
        lambda on: on.project.events.append("note.taken", {}, session=on.held),
    ),
    "evidence add": (
        lambda on: on.project.evidence.add("test", "more", work="A"),
        lambda on: on.project.evidence.add("test", "more", work="A", branch="side"),
        lambda on: on.project.evidence.add("test", "more", session=on.held),
    ),
    "work complete": (lambda on: on.project.work.complete("A", session=on.held),),
    "branch select": (lambda on: on.project.branches.select("side"),),
    "branch close": (lambda on: on.project.branches.close("side"),),
}
# What brings to an end what is under way, in this order.
KEPT: dict[str, Acts] = {
    "session checkpoint": (lambda on: on.project.sessions.checkpoint(on.held, "half", "stop"),),
    "claim release": (lambda on: on.project.claims.release(on.held),),
    "session end": (
        lambda on: on.project.sessions.end(on.held),
        lambda on: on.project.sessions.end(on.idle),
        lambda on: on.project.sessions.end(on.stopped),
    ),
}
# What is of no branch, or of another one.
ELSEWHERE: dict[str, Acts] = {
    "doctor repair expire-claim": (
        lambda on: on.project.doctor.expire_claim(
            on.lapsed, "over", expected_revision=on.project.info().revision
        ),
    ),
    "doctor repair clock": (_correct_clock,),
    "branch create": (lambda on: on.project.branches.create("third"),),
    "branch select": (lambda on: on.project.branches.select("third"),),
    "branch close": (lambda on: on.project.branches.close("third"),),
    "source index": (lambda on: on.project.source.index(),),
    "source patch": (
        lambda on: on.project.source.patch(
            [SetFields(work="A", values={"title": "Two"})], accept=True
        ),
    ),
    "session start": (lambda on: on.project.sessions.start("A", "codex", branch="main"),),
    "event append": (lambda on: on.project.events.append("note.taken", {}, branch="main"),),
}
READ: dict[str, Callable[[Closed], Any]] = {
    "status": lambda on: on.project.status().branch == "side",
    "ready": lambda on: on.project.work.ready(branch="side").branch == "side",
    "work list": lambda on: on.project.work.list(branch="side").work,
    "work show": lambda on: on.project.work.show("A", branch="side").work,
    "session show": lambda on: on.project.sessions.show(work="A").claim,
    "session list": lambda on: on.project.sessions.list(branch="side").sessions,
    "claim show": lambda on: on.project.claims.show("A").claim,
    "branch list": lambda on: on.project.branches.list().branches[1].state == "closed",
    "event list": lambda on: on.project.events.list(branch="side").events,
    "evidence list": lambda on: on.project.evidence.list(branch="side", current=True).evidence,
    "source scan": lambda on: on.project.source.scan().files,
    "doctor": lambda on: on.project.doctor.check().healthy,
    "receipt show": lambda on: on.project.receipts.show("r-stop").receipt,
}


def test_each_operation_is_asked_of_a_closed_branch() -> None:
    changing = {" ".join(one.words) for one in OPERATIONS if one.changes}
    # `init` makes the project itself.
    assert {*REFUSED, *KEPT, *ELSEWHERE, "init"} == changing
    assert READ.keys() == {" ".join(one.words) for one in OPERATIONS} - changing


@pytest.mark.parametrize("operation", REFUSED)
def test_a_closed_branch_takes_nothing_new(world: World, closed: Closed, operation: str) -> None:
    before = world.everything()
    for act in REFUSED[operation]:
        with refused("branch_closed") as found:
            act(closed)
        assert found.value.details["branch"] == "side"
    assert world.everything() == before


def test_what_is_under_way_on_a_closed_branch_can_be_ended(closed: Closed) -> None:
    for acts in KEPT.values():
        for act in acts:
            act(closed)
    left = closed.project.sessions.list(branch="side", active=True).sessions
    assert [session.work for session in left] == ["C"]


def test_a_closed_branch_says_nothing_of_others(closed: Closed) -> None:
    for operation, acts in ELSEWHERE.items():
        for act in acts:
            before = closed.project.info().revision
            act(closed)
            assert closed.project.info().revision == before + 1, operation


def test_a_closed_branch_stays_readable(world: World, closed: Closed) -> None:
    before = world.everything()
    for operation, look in READ.items():
        assert look(closed), operation
    assert world.everything() == before


def test_a_branch_that_is_closed_meanwhile_takes_nothing_new(world: World) -> None:
    """Being open is looked at when somebody writes, not when they ask."""
    project = world.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", branch="side").session.id
    starts, tells = world.peer(), world.peer()
    starts.bring("sessions.start", "B", "claude", branch="side")
    tells.bring("events.append", "note.taken", {}, session=session)
    project.branches.close("side")
    before = world.everything()
    for peer in (starts, tells):
        peer.let_go()
        assert peer.answer()["error"]["code"] == "branch_closed"
    assert world.everything() == before


def test_evidence_of_another_branch_is_history(world: World) -> None:
    project = world.project
    project.branches.create("side")
    project.evidence.add("test", "on main", work="A", covers=["it runs"])
    project.evidence.add("test", "on side", work="A", branch="side", covers=["it runs"])
    for branch in ("main", "side"):
        project.branches.select(branch)
        found = {one.summary: one.currency for one in project.evidence.list(work="A").evidence}
        assert found[f"on {branch}"] == "current"
        assert sorted(found.values()) == ["current", "historical"]
        only = project.evidence.list(work="A", current=True).evidence
        assert [one.summary for one in only] == [f"on {branch}"]
    with refused("criterion_unknown"):
        project.evidence.add("test", "of what", work="A", covers=["it flies"])


def test_what_another_branch_shows_completes_nothing(world: World) -> None:
    project = world.project
    project.branches.create("side")
    criteria = ["it runs", "it is told of"]
    project.evidence.add("test", "on side", work="A", branch="side", covers=criteria)
    session = project.sessions.start("A", "codex", claim=True).session.id
    before = world.everything()
    with refused("acceptance_uncovered"):
        project.work.complete("A", session=session)
    assert world.everything() == before
    project.evidence.add("test", "on main", session=session, covers=criteria)
    assert project.work.complete("A", session=session).branch == "main"
