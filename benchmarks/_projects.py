"""A project of the size that the benchmarks of the project wing speak of."""

from __future__ import annotations

from pathlib import Path

from callboard.project import access
from callboard.project.answers import EventAppended, SourceIndexed
from callboard.project.operations import work
from callboard.project.project import Project
from callboard.project.records import WorkItem
from callboard.project.store import Order
from callboard.project.unit import Unit

WORK = 10_000
SESSIONS = 1_000
EVENTS = 100_000
_AT_ONCE = 10_000


def make_project(root: Path, *, scale: float = 1.0) -> Project:
    """10,000 pieces of work in chains of ten, 1,000 ended sessions, 100,000 events."""
    project = Project.create(root, key="bench")
    count = int(WORK * scale)
    items = [
        WorkItem(
            key=f"W{number}",
            title=f"The work with the number {number}",
            status="done" if number % 10 < 3 else "open",
            acceptance=("it runs", "it is told of"),
            depends_on=(f"W{number - 1}",) if number % 10 else (),
            source_file="work.yaml",
            source_sha256="0" * 64,
        )
        for number in range(count)
    ]
    access.write(
        project._key,
        Order("benchmark setup"),
        SourceIndexed,
        lambda unit: work.replace(unit, items, (), ()),
    )
    for number in range(int(SESSIONS * scale)):
        session = project.sessions.start(f"W{number % count}", f"agent-{number % 20}").session.id
        project.sessions.end(session)
    left = int(EVENTS * scale) - project.events.list(limit=1).project_revision
    while left > 0:
        size = min(left, _AT_ONCE)
        left -= size
        _write_many(project, size)
    return project


def _write_many(project: Project, size: int) -> None:
    """Many observations in one change, which no caller could ask for; a benchmark's setup may."""

    def act(unit: Unit) -> EventAppended:
        session = f"s_{'0' * 32}"
        for number in range(size):
            unit.event(
                "note.taken",
                {"number": number, "text": "what an agent might tell of its work"},
                work=f"W{number % 1000}",
                branch="main",
                session=session,
            )
        return EventAppended(project_revision=unit.revision, event=unit.events[-1])

    access.write(project._key, Order("benchmark setup"), EventAppended, act)


def session_at(project: Project, work: str) -> str:
    """A new session."""
    return project.sessions.start(work, "benchmark").session.id
