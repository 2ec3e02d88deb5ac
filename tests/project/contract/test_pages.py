"""Filters and pages of every listing, on every kind of store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from callboard.project.project import Project
from tests.project.contract.stores import Opened
from tests.project.world import refused

LISTINGS: dict[str, Callable[..., Any]] = {
    "work": lambda project, **more: project.work.list(**more),
    "sessions": lambda project, **more: project.sessions.list(**more),
    "events": lambda project, **more: project.events.list(**more),
    "evidence": lambda project, **more: project.evidence.list(**more),
}
OTHER_FILTERS: dict[str, dict[str, Any]] = {
    "work": {"status": "open"},
    "sessions": {"active": True},
    "events": {"branch": "main"},
    "evidence": {"current": True},
}


def filled(project: Project) -> Project:
    for number in range(3):
        project.sessions.start("A", f"agent-{number}")
        project.evidence.add("t", f"{number}", work="A")
    return project


@pytest.mark.parametrize("listing", LISTINGS)
@pytest.mark.parametrize("limit", [0, -1, 501, True, 1.0, "2"])
def test_a_page_has_one_to_five_hundred(opened: Opened, listing: str, limit: Any) -> None:
    with refused("value_invalid"):
        LISTINGS[listing](opened.project, limit=limit)


@pytest.mark.parametrize("listing", LISTINGS)
def test_pages_together_are_the_listing(opened: Opened, listing: str) -> None:
    project = filled(opened.project)
    whole = getattr(LISTINGS[listing](project, limit=500), listing)
    assert len(whole) >= 3
    found: list[Any] = []
    after = None
    while True:
        page = LISTINGS[listing](opened.open(), limit=1, after=after)
        found += getattr(page, listing)
        after = page.next
        if after is None:
            break
    assert found == list(whole)


@pytest.mark.parametrize("listing", LISTINGS)
def test_a_cursor_fits_its_own_question_only(opened: Opened, listing: str) -> None:
    project = filled(opened.project)
    cursor = LISTINGS[listing](project, limit=1).next
    assert isinstance(cursor, str)
    for other in LISTINGS.keys() - {listing}:
        with refused("cursor_invalid"):
            LISTINGS[other](project, limit=1, after=cursor)
    with refused("cursor_invalid"):
        LISTINGS[listing](project, after=cursor, **OTHER_FILTERS[listing])
    for wrong in ("", "x", cursor[:-2], cursor + "AAAA", "ä", "x" * 300, 5):
        with refused("cursor_invalid"):
            LISTINGS[listing](project, after=wrong)
    # How much somebody wants is no part of the question.
    assert LISTINGS[listing](project, limit=2, after=cursor)


def test_events_are_filtered_exactly(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    one = project.sessions.start("A", "codex").session.id
    two = project.sessions.start("B", "claude", branch="side").session.id
    project.events.append("note.taken", {"of": 1}, session=one)
    project.events.append("note.taken", {"of": 2}, session=two)
    project.events.append("note.read", {"of": 3}, work="A", branch="side")

    def told(**filters: Any) -> list[str]:
        return [
            str(event.body.get("of", event.type)) for event in project.events.list(**filters).events
        ]

    assert told(session=one) == ["session.started", "1"]
    assert told(session=two, type="note.taken") == ["2"]
    assert told(branch="side") == ["branch.created", "session.started", "2", "3"]
    assert told(work="A") == ["session.started", "1", "3"]
    assert told(work="A", branch="main") == ["session.started", "1"]
    assert told(type="note.taken") == ["1", "2"]
    assert told(type="note") == []
    assert told(session="s_1") == []
    assert told(branch="Side") == []


def test_what_is_appended_meanwhile_comes_after(opened: Opened) -> None:
    project = opened.project
    for number in range(4):
        project.events.append("note.taken", {"n": number})
    first = project.events.list(type="note.taken", limit=3)
    project.events.append("note.taken", {"n": 4})
    project.events.append("note.read", {})
    rest = project.events.list(type="note.taken", limit=3, after=first.next)
    assert [one.body["n"] for one in (*first.events, *rest.events)] == [0, 1, 2, 3, 4]
    assert rest.next is None


def test_sessions_are_filtered_exactly(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    first = project.sessions.start("A", "codex").session.id
    second = project.sessions.start("A", "claude", branch="side").session.id
    third = project.sessions.start("B", "codex", branch="side").session.id
    project.sessions.end(third)

    def ids(**filters: Any) -> list[str]:
        return [one.id for one in project.sessions.list(**filters).sessions]

    assert ids() == [third, second, first]
    assert ids(work="A") == [second, first]
    assert ids(agent="codex") == [third, first]
    assert ids(branch="side") == [third, second]
    assert ids(active=True, branch="side") == [second]
    assert ids(agent="Codex") == []


def test_a_session_that_is_not_named_is_the_only_one_that_fits(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    first = project.sessions.start("A", "codex").session
    elsewhere = project.sessions.start("A", "claude", branch="side").session
    assert project.sessions.show().session == first
    assert project.sessions.show(branch="side").session == elsewhere
    second = project.sessions.start("B", "codex").session
    several: list[dict[str, str]] = [{}, {"agent": "codex"}, {"branch": "main"}]
    for more in several:
        with refused("session_ambiguous") as found:
            project.sessions.show(**more)
        candidates: Any = found.value.details["candidates"]
        assert [one["id"] for one in candidates] == [second.id, first.id]
    assert project.sessions.show(work="A").session == first
    assert project.sessions.show(first.id, work="A", agent="codex", branch="main").session == first
    mismatched = [{"work": "B"}, {"agent": "claude"}, {"branch": "side"}]
    for more in mismatched:
        with refused("session_mismatch"):
            project.sessions.show(first.id, **more)
    with refused("not_found"):
        project.sessions.show(agent="claude")


def test_all_filters_hold_together(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", branch="side").session.id
    project.sessions.start("A", "codex")
    note = project.events.append("note.taken", {}, session=session).event
    project.events.append("note.taken", {}, work="A")
    seen = project.evidence.add("t", "s", session=session).evidence
    project.evidence.add("t", "s", work="A")
    events = project.events.list(
        session=session, branch="side", work="A", type="note.taken", after=None, limit=1
    )
    assert (events.events, events.next) == ((note,), None)
    evidence = project.evidence.list(work="A", branch="side", current=True, after=None, limit=1)
    assert (evidence.evidence, evidence.next) == ((seen,), None)
    sessions = project.sessions.list(
        active=True, work="A", agent="codex", branch="side", after=None, limit=1
    )
    assert [one.id for one in sessions.sessions] == [session]
    work = project.work.list(status="open", branch="side", after=None, limit=1)
    assert [one.key for one in work.work] == ["A"]
