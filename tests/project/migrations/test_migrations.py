"""The steps make the tables that the program works with; many processes take each of them once.

Databases of an earlier version are met with a program that is one step ahead (`patched`).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from pytest_alembic.config import Config as AlembicConfig
from pytest_alembic.tests import (  # noqa: F401 - collected here
    test_model_definitions_match_ddl,
    test_single_head_revision,
    test_upgrade,
)
from sqlalchemy import Engine, create_engine

from callboard.project import migrating, schema
from callboard.project.project import Project
from tests.project.migrations.definitions import definitions
from tests.project.patched import next_version
from tests.project.peers import Peer
from tests.project.world import NOW_MS, World, make_world, refused


@pytest.fixture
def alembic_config() -> AlembicConfig:
    return AlembicConfig(config_options={"script_location": str(migrating.STEPS)})


@pytest.fixture
def alembic_engine(tmp_path: Path) -> Engine:
    return create_engine(f"sqlite:///{tmp_path / 'steps.db'}")


def test_the_steps_lead_to_the_schema_of_the_program(tmp_path: Path) -> None:
    made = make_world(tmp_path / "demo")
    made.end()
    direct = tmp_path / "direct.db"
    engine = create_engine(f"sqlite:///{direct}")
    schema.metadata.create_all(engine)
    with engine.begin() as connection:
        for trigger in schema.sqlite_triggers():
            connection.exec_driver_sql(trigger)
    engine.dispose()
    stepped = definitions(made.file)
    assert stepped.pop("table alembic_version") == [
        "CREATE TABLE alembic_version",
        "version_num TEXT NOT NULL",
        "CONSTRAINT alembic_version_pkc PRIMARY KEY ( version_num )",
        "STRICT",
    ]
    assert stepped.pop("index sqlite_autoindex_alembic_version_1") == []
    assert stepped == definitions(direct)


CHANGES = {
    "another column may be empty": ("state TEXT NOT NULL", "state TEXT"),
    "a column of another kind": ("fence INTEGER NOT NULL", "fence TEXT NOT NULL"),
    "columns in another order": (
        "agent TEXT NOT NULL, \n\tbranch TEXT NOT NULL, \n\tstate",
        "branch TEXT NOT NULL, \n\tagent TEXT NOT NULL, \n\tstate",
    ),
    "a check of another column": (
        "CHECK (fence >= 1)",
        "CHECK (acquired_at_ms >= 1)",
    ),
    "a key in another order": (
        "UNIQUE (tenant, project, work, fence)",
        "UNIQUE (tenant, project, fence, work)",
    ),
    "no longer strict": (") STRICT", ")"),
    "an index in another order": (
        "ON claims (tenant, project, session, fence)",
        "ON claims (tenant, project, fence, session)",
    ),
    "an index that is no longer unique": (
        "CREATE UNIQUE INDEX uq_claims_active",
        "CREATE INDEX uq_claims_active",
    ),
    "an index of all rows": (" WHERE state = 'active'", ""),
    "a reference to another key": (
        "REFERENCES sessions (tenant, project, id)",
        "REFERENCES sessions (project, tenant, id)",
    ),
    "hidden numbers": (" WITHOUT ROWID,\n STRICT", " STRICT"),
    "a trigger that says nothing": (
        "RAISE(ABORT, 'events are never changed')",
        "RAISE(IGNORE)",
    ),
    "a trigger that comes later": (
        "keep_events_update BEFORE UPDATE",
        "keep_events_update AFTER UPDATE",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_comparison_would_notice(world: World, tmp_path: Path, change: str) -> None:
    """What the tests of the schema are worth: each of these is another definition to them."""
    world.project.close()
    raw = world.raw()
    found = [row[0] for row in raw.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")]
    raw.close()
    text = ";\n".join(found) + ";"
    before, after = CHANGES[change]
    assert before in text
    changed = text.replace(before, after, 1)
    files = {}
    for name, script in (("same", text), ("changed", changed)):
        files[name] = tmp_path / f"{name}.db"
        connection = sqlite3.connect(files[name])
        connection.executescript(script)
        connection.close()
    assert definitions(files["same"]) == definitions(world.file)
    assert definitions(files["changed"]) != definitions(world.file)


def test_the_version_is_that_of_the_last_step() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrating.STEPS))
    assert ScriptDirectory.from_config(config).get_heads() == [schema.VERSION]


def test_every_table_is_strict_and_of_one_project(world: World) -> None:
    raw = world.raw()
    tables = raw.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'")
    for name, strict in tables.fetchall():
        if name.startswith("sqlite_"):
            continue
        assert strict == 1, name
        columns = {row[1] for row in raw.execute(f"PRAGMA table_info({name})")}
        if name != "alembic_version":
            assert {"tenant", "project"} <= columns, name
    with pytest.raises(sqlite3.IntegrityError, match="cannot store TEXT value"):
        raw.execute("UPDATE projects SET revision = 'many'")
    raw.close()


def test_ten_processes_make_a_project_once(tmp_path: Path) -> None:
    root = tmp_path / "fresh"
    root.mkdir()
    peers = [Peer(root, clock_ms=NOW_MS) for _ in range(10)]
    for peer in peers:
        peer.send("create", "demo")
    answers = [peer.answer() for peer in peers]
    assert [answer for answer in answers if "answer" not in answer] == []
    assert len({answer["answer"]["id"] for answer in answers}) == 1
    for number, peer in enumerate(peers):
        peer.send("branches.create", f"side-{number}")
    answers = [peer.answer() for peer in peers]
    assert [answer for answer in answers if "answer" not in answer] == []
    for peer in peers:
        peer.end()
    with Project.open(root) as project:
        assert project.info().revision == 11
        assert len(project.branches.list().branches) == 11
        assert project.doctor.check().findings == ()


def test_what_a_newer_program_wrote_is_refused_unread(world: World, tmp_path: Path) -> None:
    world.project.close()
    peer = Peer(world.root, clock_ms=NOW_MS, package=next_version(tmp_path / "next"))
    world.peers.append(peer)
    peer.ask("open")
    before = world.everything()
    for read_only in (False, True):
        with refused("schema_newer") as found:
            Project.open(world.root, read_only=read_only)
        assert found.value.details == {"found": "0002", "known": "0001"}
    with refused("schema_newer"):
        Project.create(world.root, key="demo")
    diagnosis = Project.diagnose(world.root)
    assert not diagnosis.healthy
    assert [finding.code for finding in diagnosis.findings] == ["schema_newer"]
    assert world.everything() == before


def test_looking_never_takes_a_step(world: World, tmp_path: Path) -> None:
    world.project.close()
    package = next_version(tmp_path / "next")
    peer = Peer(world.root, clock_ms=NOW_MS, package=package)
    world.peers.append(peer)
    found = peer.ask("look")
    assert found["answer"]["read_only"] == "schema_older"
    assert found["answer"]["diagnosis"] == ["schema_older"]
    assert world.rows("alembic_version") == [("0001",)]
