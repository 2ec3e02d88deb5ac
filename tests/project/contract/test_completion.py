"""Readiness and completion, on every kind of store."""

from __future__ import annotations

from callboard.project.project import Project
from callboard.project.records import Session
from tests.project.contract.stores import Opened
from tests.project.world import refused


def holder(project: Project, work: str = "A") -> Session:
    return project.sessions.start(work, "codex", claim=True).session


def ready(project: Project) -> list[str]:
    return [one.key for one in project.work.ready().ready]


def test_it_is_told_once_and_lets_others_begin(opened: Opened) -> None:
    project = opened.project
    assert ready(project) == ["A", "B"]
    session = holder(project)
    assert ready(project) == ["B"]
    with refused("acceptance_uncovered"):
        project.work.complete("A", session=session.id)
    for criterion in ("it runs", "it is told of"):
        project.evidence.add("test", "seen", session=session.id, covers=[criterion])
    before = project.info().revision
    answer = project.work.complete("A", session=session.id, request_id="r-1")
    assert answer.project_revision == project.info().revision == before + 1
    assert project.work.complete("A", session=session.id, request_id="r-1") == answer
    with refused("work_not_ready"):
        project.work.complete("A", session=session.id)
    assert [event.id for event in project.events.list(type="work.completed").events] == [
        answer.event.id
    ]
    assert ready(project) == ["B", "C"]
    assert [one.completed for one in project.work.list().work] == [True, False, False]


def test_it_counts_on_its_branch(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", branch="side", claim=True).session
    project.evidence.add("t", "s", session=session.id, covers=["it runs", "it is told of"])
    project.work.complete("A", session=session.id)
    project.sessions.end(session.id)
    assert ready(project) == ["A", "B"]
    project.branches.select("side")
    assert ready(project) == ["B", "C"]


def test_readiness_tells_each_reason(opened: Opened) -> None:
    project = opened.project
    session = holder(project, "C")
    reasons = project.work.show("C").work.readiness.reasons
    assert [(one.kind, one.item, one.path) for one in reasons] == [
        ("claimed", "C", ("C",)),
        ("dependency_open", "A", ("C", "A")),
    ]
    own = project.work.show("C", session=session.id).work.readiness.reasons
    assert [one.kind for one in own] == ["dependency_open"]
