"""What every change has in common, on every kind of store; all operations are played."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from callboard.project.operations_table import OPERATIONS
from tests.project.contract.stores import Opened
from tests.project.scenarios import SCENARIOS, WITHOUT_PROJECT
from tests.project.world import NOW_MS, refused


def test_every_change_of_the_table_has_a_scenario() -> None:
    changing = {" ".join(one.words) for one in OPERATIONS if one.changes}
    assert changing == {one.operation for one in SCENARIOS.values()} | WITHOUT_PROJECT


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_change_is_one_revision_with_its_events(opened: Opened, name: str) -> None:
    wanted = SCENARIOS[name]
    call = wanted.prepare(opened)
    (table,) = [one for one in OPERATIONS if " ".join(one.words) == wanted.operation]
    assert call.method == table.call
    project = opened.project
    before = project.info().revision
    last = project.events.list(limit=500).events[-1].seq
    answer = call.on(project)
    assert answer.project_revision == project.info().revision == before + 1
    events = [one for one in project.events.list(limit=500).events if one.seq > last]
    assert tuple(one.type for one in events) == wanted.told
    assert [one.seq for one in events] == list(range(last + 1, last + 1 + len(events)))
    assert {one.revision for one in events} == {before + 1}
    assert {one.at_ms for one in events} == {opened.clock.now_ms()}
    assert events == list(getattr(answer, "events", None) or [answer.event])


@pytest.mark.parametrize("name", SCENARIOS)
def test_made_once_more_it_is_another_change_or_refused(opened: Opened, name: str) -> None:
    wanted = SCENARIOS[name]
    call = wanted.prepare(opened)
    after = call.on(opened.project).project_revision
    if wanted.again is None:
        assert call.on(opened.project).project_revision == after + 1
    else:
        with refused(wanted.again):
            call.on(opened.project)
        assert opened.project.info().revision == after


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_revision_that_was_expected_is_the_present_one(opened: Opened, name: str) -> None:
    call = SCENARIOS[name].prepare(opened)
    project = opened.project
    seen = project.info().revision
    before = _everything(project)
    for stale in (seen - 1, seen + 1):
        with refused("revision_conflict") as found:
            call.on(project, expected_revision=stale)
        assert found.value.details == {"expected": stale, "actual": seen}
    assert _everything(project) == before
    assert call.on(project, expected_revision=seen).project_revision == seen + 1


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_request_is_carried_out_once(opened: Opened, name: str) -> None:
    call = SCENARIOS[name].prepare(opened)
    project = opened.project
    first = call.on(project, request_id="r-1")
    before = _everything(project)
    opened.clock.advance(10_000_000)
    for asked in (project, opened.open()):
        assert call.on(asked, request_id="r-1") == first
    receipt = project.receipts.show("r-1").receipt
    assert receipt.operation == SCENARIOS[name].operation
    assert receipt.revision == first.project_revision
    assert receipt.outcome == json.loads(msgspec.json.encode(first))
    with refused("request_conflict"):
        project.branches.create("elsewhere", request_id="r-1")
    with refused("request_conflict"):
        call.on(opened.open(actor="somebody else"), request_id="r-1")
    opened.clock.advance(-10_000_000)
    assert _everything(project) == before


def test_time_never_goes_back(opened: Opened) -> None:
    project = opened.project
    opened.clock.advance(5000)
    claim = project.sessions.start("A", "codex", claim=True, ttl_ms=1000).claim
    assert claim is not None
    assert claim.acquired_at_ms == NOW_MS + 5000
    opened.clock.advance(-4000)
    assert project.events.append("note.taken", {}).event.at_ms == NOW_MS + 5000
    renewed = project.claims.renew(claim.session, 2000).claim
    assert renewed.expires_at_ms == NOW_MS + 7000


def _everything(project: Any) -> list[Any]:
    """All that a project answers."""
    return [
        project.info(),
        project.status(),
        project.work.list(),
        project.sessions.list(),
        project.branches.list(),
        project.events.list(limit=500),
        project.evidence.list(),
        *(project.claims.show(one.key) for one in project.work.list().work),
    ]
