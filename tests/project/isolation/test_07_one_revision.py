"""Condition 7: rows and receipts come together under one revision, and linked ones share it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.project import indexing
from tests.project.world import ITEMS, World


def test_every_change_advances_the_revision_by_one(world: World) -> None:
    project = world.project
    session = project.sessions.start("A", "codex", claim=True).session.id
    changes: list[Callable[[], Any]] = [
        lambda: project.sessions.checkpoint(session, "half", "go on"),
        lambda: project.claims.release(session),
        lambda: project.claims.acquire(session, ttl_ms=1000),
        lambda: project.claims.renew(session, 5000),
        lambda: project.events.append("note.taken", {}, session=session),
        lambda: project.evidence.add("test", "green", session=session),
        lambda: project.branches.create("side"),
        lambda: project.branches.select("side"),
        lambda: project.branches.select("side"),
        lambda: project.branches.close("side"),
        lambda: project.branches.select("main"),
        lambda: project.sessions.handoff(session, "claude"),
        lambda: indexing.replace(project, ITEMS),
    ]
    for change in changes:
        before = project.info().revision
        answer = change()
        assert project.info().revision == before + 1
        assert answer.project_revision == before + 1
        told = [event for event in project.events.list(limit=500).events if event.revision > before]
        assert told
        assert {event.revision for event in told} == {before + 1}


@pytest.mark.parametrize("way", ["handoff", "resume"])
def test_a_succession_tells_all_of_it_at_one_revision(world: World, way: str) -> None:
    project = world.project
    first = project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    answer = getattr(project.sessions, way)(first.session.id, "claude")
    types = {event.type for event in answer.events}
    over = {"handoff": "session.handed_off", "resume": "session.resumed"}[way]
    assert {over, "session.started", "claim.transferred", "claim.acquired"} <= types
    assert {event.revision for event in answer.events} == {first.project_revision + 1}
    assert project.info().revision == first.project_revision + 1
    stored = [e for e in project.events.list().events if e.revision == answer.project_revision]
    assert stored == list(answer.events)


def test_a_repeated_request_writes_nothing_more(world: World) -> None:
    project = world.project
    first = project.sessions.start("A", "codex", claim=True, request_id="r1")
    before = world.everything()
    again = world.open().sessions.start("A", "codex", claim=True, request_id="r1")
    assert again == first
    assert world.everything() == before
