"""What PostgreSQL would be asked: tables, and each statement of each operation, in its words.

No such database runs here; that it takes these words is shown as far as SQLAlchemy knows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import ClauseElement, Dialect, Engine, TextClause, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from callboard.project import schema, statements, store
from tests.project.scenarios import SCENARIOS
from tests.project.world import make_world

# What makes the tables is asked apart, and the rest is about SQLite itself.
BEYOND = (TextClause, ExecutableDDLElement)
POSTGRESQL: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]


def words(statement: ClauseElement, dialect: Dialect = POSTGRESQL) -> str:
    return " ".join(str(statement.compile(dialect=dialect)).split())


@pytest.fixture
def asked() -> Iterator[list[ClauseElement]]:
    """All statements that go by way of SQLAlchemy while the test runs."""
    found: list[ClauseElement] = []

    def before(_connection: Any, statement: Any, *_more: Any) -> None:
        if isinstance(statement, ClauseElement) and not isinstance(statement, BEYOND):
            found.append(statement)

    event.listen(Engine, "before_execute", before)
    yield found
    event.remove(Engine, "before_execute", before)


def test_every_table_and_index_can_be_made() -> None:
    for table in schema.metadata.sorted_tables:
        assert words(CreateTable(table)).startswith(f"CREATE TABLE {table.name} ("), table.name
        for index in table.indexes:
            assert f" ON {table.name} (" in words(CreateIndex(index)), index.name
    (one_claim,) = [one for one in schema.claims.indexes if one.unique]
    made = words(CreateIndex(one_claim))
    assert made.startswith("CREATE UNIQUE INDEX ")
    assert made.endswith("ON claims (tenant, project, work) WHERE state = 'active'")


def test_every_statement_of_every_operation_can_be_said(
    asked: list[ClauseElement], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[Any, Any] = {}
    monkeypatch.setattr(statements, "_spelled", kept)
    for number, scenario in enumerate(SCENARIOS.values()):
        world = make_world(tmp_path / str(number) / "demo")
        scenario.prepare(world).on(world.project)
        project = world.project
        for look in (project.status, project.work.list, project.sessions.list, project.claims.show):
            look(*(("A",) if look == project.claims.show else ()))
        for page in (project.branches.list, project.events.list, project.evidence.list):
            page()
        world.end()
    said = {words(one) for one in (*asked, *(one for one, _name, _driver in kept))}
    # How far the schema has come stands beside the tables.
    said = {one for one in said if "alembic_version" not in one}
    verbs = {one.partition(" ")[0] for one in said}
    assert verbs == {"SELECT", "INSERT", "UPDATE", "DELETE"}
    assert len(said) > 40
    # Each row is named with its tenant and project, but for the one look that finds the project.
    where = [one.partition(" WHERE ")[2] for one in said if not one.startswith("INSERT ")]
    beyond = [one for one in where if "tenant = " not in one or "project = " not in one]
    assert [one for one in beyond if "ORDER BY projects.created_at_ms" not in one] == []
    assert len(beyond) == 1


def test_a_change_locks_the_row_of_its_project() -> None:
    locked = store._PROJECT_LOCKED
    assert words(locked).endswith("FOR UPDATE")
    assert words(store._PROJECT) + " FOR UPDATE" == words(locked)
    # SQLite locks the file, and knows no such words.
    assert "FOR UPDATE" not in words(locked, sqlite.dialect())
