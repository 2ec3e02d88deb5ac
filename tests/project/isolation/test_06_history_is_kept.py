"""Condition 6: history that is written stays so, whichever statement or connection tries.

Receipts too. `new` is the connection that made the file, `reopened` a later one; `plain` is one of
another program, without any setting of ours.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from callboard.project import access, sqlite_file
from tests.project.world import World, make_world

KINDS = ("new", "reopened", "read-only", "snapshot", "plain")

EVENT = "tenant, project, seq, id, type, revision, at_ms, body"
CHANGES = {
    "update": "UPDATE events SET body = '{}' WHERE seq = 2",
    "update of all": "UPDATE events SET type = 'x.y'",
    "update or replace": "UPDATE OR REPLACE events SET seq = 1 WHERE seq = 2",
    "delete": "DELETE FROM events WHERE seq = 2",
    "delete of all": "DELETE FROM events",
    "upsert": f"INSERT INTO events ({EVENT}) SELECT tenant, project, seq, id, 'x.y', revision, "
    "at_ms, body FROM events WHERE seq = 2 "
    "ON CONFLICT (tenant, project, seq) DO UPDATE SET type = 'x.y'",
    "replace by number": f"REPLACE INTO events ({EVENT}) SELECT tenant, project, seq, 'e_x', "
    "'x.y', revision, at_ms, '{}' FROM events WHERE seq = 2",
    "replace by id": f"INSERT OR REPLACE INTO events ({EVENT}) SELECT tenant, project, 99, id, "
    "'x.y', revision, at_ms, '{}' FROM events WHERE seq = 2",
    "receipt updated": "UPDATE receipts SET outcome = '{}'",
    "receipt deleted": "DELETE FROM receipts",
    "receipt upserted": "INSERT INTO receipts SELECT * FROM receipts WHERE true "
    "ON CONFLICT (tenant, project, request_id) DO UPDATE SET outcome = '{}'",
    "receipt replaced": "REPLACE INTO receipts SELECT tenant, project, request_id, operation, "
    "actor, fingerprint, revision, at_ms, '{}' FROM receipts",
}


@contextmanager
def connection_of(world: World, kind: str) -> Iterator[sqlite3.Connection]:
    """The driver's connection of that kind."""
    if kind == "plain":
        raw = world.raw()
        yield raw
        raw.close()
        return
    if kind in ("new", "reopened"):
        project = world.project if kind == "new" else world.open()
        engine = access.store_of(project._key)._engine
    elif kind == "read-only":
        engine = sqlite_file.engine_on(world.file, read_only=True)
    else:
        engine = sqlite_file.snapshot_of(world.file)
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        yield driver


# What keeps the rows, by name: one for each verb, and one for each key that comes only once.
GUARDS = {
    "keep_events_update",
    "keep_events_delete",
    "keep_events_insert_seq",
    "keep_events_insert_id",
    "keep_receipts_update",
    "keep_receipts_delete",
    "keep_receipts_insert_request_id",
}


@pytest.fixture
def written(tmp_path: Path) -> Iterator[World]:
    """A project with events and a receipt, whose file was made by this very connection."""
    made = make_world(tmp_path / "demo")
    made.project.events.append("note.taken", {"n": 1}, request_id="r1")
    yield made
    made.end()


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_row_stays(written: World, kind: str) -> None:
    # A file that is only read refuses each change by itself, so the guards are looked for.
    why = "readonly" if kind == "read-only" else "never changed"
    with connection_of(written, kind) as connection:
        events = connection.execute("SELECT * FROM events ORDER BY seq").fetchall()
        receipts = connection.execute("SELECT * FROM receipts").fetchall()
        assert (len(events), len(receipts)) == (3, 1)
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        assert {name for (name,) in found} >= GUARDS
        for change in CHANGES.values():
            with pytest.raises(sqlite3.Error, match=why):
                connection.execute(change)
            assert connection.execute("SELECT * FROM events ORDER BY seq").fetchall() == events
            assert connection.execute("SELECT * FROM receipts").fetchall() == receipts


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plain"])
def test_every_connection_of_ours_has_the_settings(written: World, kind: str) -> None:
    with connection_of(written, kind) as connection:
        for name, value in (("recursive_triggers", 1), ("foreign_keys", 1), ("synchronous", 2)):
            assert connection.execute(f"PRAGMA {name}").fetchone() == (value,), name
        if kind != "snapshot":
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA busy_timeout").fetchone()[0] > 0


def test_replace_meets_the_delete_trigger_alone(written: World) -> None:
    """The setting does its part where the guard on INSERT is gone."""
    raw = written.raw()
    for (name,) in raw.execute(
        "SELECT name FROM sqlite_schema WHERE name LIKE 'keep_%_insert_%'"
    ).fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    raw.close()
    with connection_of(written, "reopened") as connection:
        for change in ("replace by number", "replace by id", "receipt replaced"):
            with pytest.raises(sqlite3.IntegrityError, match="never changed"):
                connection.execute(CHANGES[change])


def test_the_doctor_misses_a_guard(written: World) -> None:
    raw = written.raw()
    raw.execute("DROP TRIGGER keep_events_delete")
    raw.close()
    found = written.project.doctor.check()
    assert not found.healthy
    assert [(one.code, one.subject) for one in found.findings if one.severity == "error"] == [
        ("guard_missing", "keep_events_delete")
    ]


def test_nothing_else_was_written_by_a_refused_change(written: World) -> None:
    engine = access.store_of(written.project._key)._engine.execution_options(writes=True)
    before = written.everything()
    with engine.connect() as connection:
        connection.exec_driver_sql("UPDATE projects SET revision = revision + 1")
        with pytest.raises(DBAPIError):
            connection.exec_driver_sql(CHANGES["delete"])
    assert written.everything() == before
