"""Damage of what is stored: readers refuse it with a code, and the doctor says where it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from callboard.errors import CallboardError
from callboard.project import access
from callboard.project.project import Project
from callboard.project.unit import Scope
from tests.project.isolation.test_01_no_way_to_the_database import leaks
from tests.project.world import World, refused

READERS: dict[str, Callable[[Project], object]] = {
    "status": lambda project: project.status(),
    "events": lambda project: project.events.list(),
    "work": lambda project: project.work.list(),
    "shown": lambda project: project.work.show("A"),
    "ready": lambda project: project.work.ready(),
    "sessions": lambda project: project.sessions.list(),
    "session": lambda project: project.sessions.show(project.sessions.list().sessions[0].id),
    "branches": lambda project: project.branches.list(),
    "evidence": lambda project: project.evidence.list(),
    "claim": lambda project: project.claims.show("A"),
    "receipt": lambda project: project.receipts.show("r1"),
    "scan": lambda project: project.source.scan(),
    "again": lambda project: project.branches.create("side", request_id="r1"),
    "renew": lambda project: project.claims.renew(project.sessions.list().sessions[0].id, 900_000),
}

DAMAGED = [
    ("events", "body", b"{\xff", "events"),
    ("events", "body", b"[1]", "events"),
    ("events", "type", b"\xff\xfe", "events"),
    ("receipts", "outcome", b"no", "again"),
    ("receipts", "outcome", b"[]", "receipt"),
    ("work_items", "acceptance", b"{}", "shown"),
    ("work_items", "depends_on", b"", "work"),
    ("work_items", "title", b"\xc3(", "work"),
    ("evidence", "covers", b"[1]", "evidence"),
    ("evidence", "summary", b"\x80", "evidence"),
    ("checkpoints", "open_loops", b"x", "session"),
    ("checkpoints", "artifacts", b"[{}]", "session"),
    ("sessions", "agent", b"\xff", "sessions"),
    ("sources", "path", b"\xff", "scan"),
    ("selections", "branch", b"\xff", "status"),
]


def filled(world: World) -> None:
    project = world.project
    session = project.sessions.start("A", "codex", claim=True, ttl_ms=900_000).session.id
    project.sessions.checkpoint(session, "half", "the rest", open_loops=["why"])
    project.evidence.add("test", "green", work="A", covers=["it runs"])
    project.branches.create("side", request_id="r1")


def overwrite(world: World, sql: str, *values: object) -> None:
    raw = world.raw()
    triggers = raw.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _sql in triggers:
        raw.execute(f"DROP TRIGGER {name}")
    assert raw.execute(sql, values).rowcount > 0
    for _name, text in triggers:
        raw.execute(text)
    raw.close()


def codes(project: Project) -> set[str]:
    """What all readers come to; none of them may be refused by anything but a code."""
    found = set()
    for act in READERS.values():
        try:
            act(project)
        except CallboardError as error:
            found.add(error.code)
            assert leaks(error) == []  # noqa: PT017
    return found


@pytest.mark.parametrize(("table", "column", "data", "reader"), DAMAGED)
def test_a_row_that_cannot_be_read(
    world: World, table: str, column: str, data: bytes, reader: str
) -> None:
    filled(world)
    assert world.project.doctor.check().healthy
    overwrite(world, f"UPDATE {table} SET {column} = CAST(? AS TEXT)", data)
    with refused("project_corrupt") as found:
        READERS[reader](world.project)
    assert leaks(found.value) == []
    assert codes(world.project) <= {"project_corrupt", "not_found", "claim_not_holder"}
    diagnosis = world.project.doctor.check()
    assert not diagnosis.healthy
    assert ("row_unreadable", table) in {(one.code, one.subject) for one in diagnosis.findings}


def test_a_selection_that_is_gone(world: World) -> None:
    overwrite(world, "DELETE FROM selections")
    for name in ("status", "branches"):
        with refused("project_corrupt"):
            READERS[name](world.project)
    assert "selection_missing" in {one.code for one in world.project.doctor.check().findings}


def test_a_selected_branch_that_is_gone(world: World) -> None:
    overwrite(world, "UPDATE selections SET branch = 'nowhere'")
    with refused("project_corrupt"):
        world.project.status()
    assert "foreign_key" in {one.code for one in world.project.doctor.check().findings}


def test_bytes_of_the_schema_that_are_no_text(world: World) -> None:
    """Wherever a byte of the first page is another one, nothing but codes comes out."""
    filled(world)
    world.project.close()
    raw = world.raw()
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    data = world.file.read_bytes()
    met = set()
    for place in [*range(100, 4096, 61), *range(data.find(b"CREATE TABLE"), 4096, 97)]:
        spoilt = bytearray(data)
        spoilt[place : place + 2] = b"\xff\xfe"
        world.file.write_bytes(spoilt)
        diagnosis = Project.diagnose(world.root)
        try:
            with Project.open(world.root) as project:
                met |= codes(project)
        except CallboardError as error:
            met.add(error.code)
            assert not diagnosis.healthy
    assert "project_corrupt" in met
    world.file.write_bytes(data)


def test_a_defect_stays_loud_and_leads_nowhere(world: World) -> None:
    def act(scope: Scope) -> None:
        scope.connection.no_such_thing  # type: ignore[attr-defined]  # noqa: B018

    with pytest.raises(AttributeError, match="no_such_thing") as found:
        access.read(world.project._key, act)
    assert leaks(found.value) == []
    assert found.value.__context__ is None
    assert "in act" in found.value.__notes__[0]

    def fail(scope: Scope) -> None:
        raise sqlite3.ProgrammingError("defect")

    with pytest.raises(AssertionError, match="ProgrammingError: defect"):
        access.read(world.project._key, fail)
