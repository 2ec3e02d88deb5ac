"""Condition 19: events are filtered exactly by branch and session; pages stay whole while others
append."""

from __future__ import annotations

import base64
import json

import pytest

from callboard.project.records import Event
from tests.project.peers import Peer
from tests.project.world import World, refused


def walk(world: World, limit: int, **filters: str) -> list[Event]:
    """All pages, one after the other."""
    found: list[Event] = []
    after = None
    while True:
        page = world.project.events.list(**filters, after=after, limit=limit)
        assert len(page.events) <= limit
        found += page.events
        if page.next is None:
            return found
        after = page.next


def test_filters_are_exact(world: World) -> None:
    project = world.project
    project.branches.create("side")
    one = project.sessions.start("A", "codex").session.id
    two = project.sessions.start("A", "claude", branch="side").session.id
    for session in (one, two, one):
        project.events.append("note.taken", {}, session=session)
    assert len(walk(world, 1, session=one, type="note.taken")) == 2
    assert {event.branch for event in walk(world, 2, branch="side")} == {"side"}
    assert walk(world, 2, branch="sid") == []
    assert walk(world, 2, branch="Side") == []
    assert walk(world, 2, session=one, branch="side") == []
    assert [event.type for event in walk(world, 1, session=two)] == [
        "session.started",
        "note.taken",
    ]
    everything = walk(world, 3)
    assert [event.seq for event in everything] == list(range(1, len(everything) + 1))


def test_pages_stay_whole_while_others_write(world: World) -> None:
    """Two processes append all the time; what was there at first is read once, in order.

    The first time both are about to write before one of them does.
    """
    project = world.project
    first = [project.events.append("note.taken", {"n": n}).event.id for n in range(60)]
    peers = [world.peer(), world.peer()]
    seen: list[str] = []
    after = None
    for turn in range(100):
        ask = Peer.send if turn else Peer.bring
        for peer in peers:
            ask(peer, "events.append", ("note.taken", "other.noted")[turn % 2], {"late": turn})
        page = project.events.list(type="note.taken", after=after, limit=7)
        seen += [event.id for event in page.events]
        for peer in peers if not turn else ():
            peer.let_go()
        for peer in peers:
            assert "answer" in peer.answer()
        after = page.next
        if after is None:
            break
    assert after is None
    assert seen[: len(first)] == first
    assert len(seen) == len(set(seen))


def test_a_cursor_is_bound_to_its_question(world: World) -> None:
    project = world.project
    project.events.append("note.taken", {})
    cursor = project.events.list(limit=1).next
    assert cursor is not None
    for filters in ({"type": "note.taken"}, {"branch": "main"}, {"work": "A"}, {"session": "s_1"}):
        with refused("cursor_invalid"):
            project.events.list(**filters, after=cursor, limit=1)
    with refused("cursor_invalid"):
        project.sessions.list(after=cursor)
    # The size of the page is no part of the question.
    assert project.events.list(after=cursor, limit=5).events


@pytest.mark.parametrize("change", ["v", "a", "f", "more", "no json", "no text", "long"])
def test_what_is_no_cursor_is_refused(world: World, change: str) -> None:
    cursor = world.project.events.list(limit=1).next
    assert cursor is not None
    value = json.loads(base64.urlsafe_b64decode(cursor + "=="))
    wrong = {"v": {"v": 2}, "a": {"a": "1"}, "f": {"f": "0" * 16}, "more": {"x": 1}}
    forged = base64.urlsafe_b64encode(
        json.dumps(value | wrong.get(change, {}), separators=(",", ":"), sort_keys=True).encode()
    ).decode()
    if change == "no json":
        forged = "bm8"
    elif change == "no text":
        forged = "\x00é"
    elif change == "long":
        forged = "A" * 5000
    with refused("cursor_invalid"):
        world.project.events.list(after=forged, limit=1)


@pytest.mark.parametrize("limit", [0, -1, 501, True, "5"])
def test_a_page_has_bounds(world: World, limit: int) -> None:
    with refused("value_invalid"):
        world.project.events.list(limit=limit)


def test_a_page_is_bounded_in_bytes_too(world: World) -> None:
    for number in range(20):
        world.project.events.append("note.taken", {"text": "x" * 60_000, "n": number})
    page = world.project.events.list(type="note.taken", limit=500)
    assert 1 < len(page.events) < 20
    assert page.next is not None
    assert [event.body["n"] for event in walk(world, 500, type="note.taken")] == list(range(20))
    with refused("body_limit"):
        world.project.events.append("note.taken", {"text": "x" * 70_000})
