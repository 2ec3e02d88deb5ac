"""The steps make the tables that the program works with; many processes take each of them once.

Databases of an earlier version are met with a program that is one step ahead (`patched`).
"""

from __future__ import annotations

import re
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
from tests.project.patched import next_version
from tests.project.peers import Peer
from tests.project.world import NOW_MS, World, make_world, refused


@pytest.fixture
def alembic_config() -> AlembicConfig:
    return AlembicConfig(config_options={"script_location": str(migrating.STEPS)})


@pytest.fixture
def alembic_engine(tmp_path: Path) -> Engine:
    return create_engine(f"sqlite:///{tmp_path / 'steps.db'}")


def definitions(file: Path) -> dict[str, str]:
    """Every object of a database, as SQL with the blanks evened out."""
    connection = sqlite3.connect(file)
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    found = {name: " ".join(re.sub(r"([(),])", r" \1 ", sql).split()) for name, sql in rows}
    connection.close()
    return found


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
    assert "STRICT" in stepped.pop("alembic_version")

    def parts(sql: str) -> list[str]:
        # The order of constraints says nothing.
        return sorted(sql.split(" , "))

    expected = definitions(direct)
    assert stepped.keys() == expected.keys()
    for name, sql in expected.items():
        assert sorted(" ".join(parts(stepped[name])).split()) == sorted(
            " ".join(parts(sql)).split()
        ), name


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


def test_a_database_of_the_first_version_is_brought_up_to_date(
    world: World, tmp_path: Path
) -> None:
    session = world.project.sessions.start("A", "codex", claim=True).session.id
    before = world.project.events.list().events
    world.project.close()
    peer = Peer(world.root, clock_ms=NOW_MS, package=next_version(tmp_path / "next"))
    world.peers.append(peer)
    shown = peer.ask("sessions.show", session)["answer"]
    assert shown["claim"]["state"] == "active"
    assert len(peer.ask("events.list")["answer"]["events"]) == len(before)
    assert world.rows("alembic_version") == [("0002",)]
    assert [row[-1] for row in world.rows("sessions")] == ["fine"]


def test_ten_processes_take_the_step_once(world: World, tmp_path: Path) -> None:
    world.project.close()
    package = next_version(tmp_path / "next")
    peers = [Peer(world.root, clock_ms=NOW_MS, package=package) for _ in range(10)]
    world.peers += peers
    for number, peer in enumerate(peers):
        peer.send("sessions.start", ("A", "B", "C")[number % 3], f"agent-{number}")
    answers = [peer.answer() for peer in peers]
    assert [answer for answer in answers if "answer" not in answer] == []
    assert world.rows("alembic_version") == [("0002",)]
    assert {row[-1] for row in world.rows("sessions")} == {None}
    assert len(world.rows("sessions")) == 10


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
