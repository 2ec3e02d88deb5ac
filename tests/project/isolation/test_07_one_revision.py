"""Condition 7: rows and receipts come together under one revision, and linked ones share it."""

from __future__ import annotations

import pytest

from callboard.project.operations_table import OPERATIONS
from callboard.project.project import Project
from tests.project.scenarios import SCENARIOS, WITHOUT_PROJECT, WORK
from tests.project.world import World


def test_no_operation_that_changes_something_is_left_out() -> None:
    """What is asked of every change here and elsewhere is asked of all that there are."""
    known = {scenario.operation for scenario in SCENARIOS.values()} | WITHOUT_PROJECT
    assert known == {" ".join(one.words) for one in OPERATIONS if one.changes}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_change_advances_the_revision_by_one(world: World, name: str) -> None:
    project = world.project
    call = SCENARIOS[name].prepare(world)
    before = project.info().revision
    answer = call.on(project, request_id="r1")
    assert project.info().revision == before + 1
    assert answer.project_revision == before + 1
    told = [event for event in project.events.list(limit=500).events if event.revision > before]
    assert [event.type for event in told] == list(SCENARIOS[name].told)
    assert {event.revision for event in told} == {before + 1}
    assert project.receipts.show("r1").receipt.revision == before + 1


def test_making_a_project_that_is_there_already_is_one_change_too(world: World) -> None:
    (world.root / "work.yaml").write_text(WORK)
    before = world.project.info().revision
    assert Project.init(world.root).project_revision == before
    assert Project.init(world.root, accept=True).project_revision == before + 1
    told = [event for event in world.project.events.list().events if event.revision > before]
    assert [(event.type, event.revision) for event in told] == [("source.indexed", before + 1)]
    # Nothing is left to be done.
    assert Project.init(world.root, accept=True).project_revision == before + 1


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


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_repeated_request_writes_nothing_more(world: World, name: str) -> None:
    call = SCENARIOS[name].prepare(world)
    first = call.on(world.project, request_id="r1")
    before = world.everything()
    assert call.on(world.open(), request_id="r1") == first
    assert world.everything() == before
