"""What the first release wrote is opened and served by this program and by later ones.

The file is kept as that release made it. Should its first step be edited, files that are out there
would no longer be what the program takes them for, and nothing would tell; here it is told.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import create_engine

from callboard.clock import FixedClock
from callboard.project import migrating, schema
from callboard.project.project import Project
from tests.ambient import DEEP
from tests.project.faults.dying import Dying
from tests.project.migrations import first_release as first
from tests.project.migrations.definitions import definitions, digest
from tests.project.patched import next_version
from tests.project.peers import Peer
from tests.project.world import World, refused

FIRST_SCHEMA = "8e30e2f46efcfc472d722c788568214c9d38d76e3fda9886eb4225f27c2b6407"
"""The digest of everything the first step makes. It never changes."""


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[World]:
    """The project of the first release, opened by this program a minute after its last change."""
    first.lay(tmp_path / "kept")
    made = World(tmp_path / "kept", FixedClock(first.CLOCK_MS + 60_000), cast(Project, None))
    made.project = made.open()
    yield made
    made.end()


def test_the_first_step_is_as_it_was(tmp_path: Path) -> None:
    """A step that is out is never edited; what is to be otherwise is a new step."""
    file = tmp_path / "replayed.db"
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        migrating.upgrade(connection, "0001")
    engine.dispose()
    replayed = definitions(file)
    assert replayed == definitions(first.lay(tmp_path / "kept"))
    assert digest(replayed) == FIRST_SCHEMA
    raw = sqlite3.connect(file)
    assert raw.execute("PRAGMA application_id").fetchone() == (0x43424450,)
    raw.close()


def test_it_is_opened_as_it_is(kept: World) -> None:
    assert schema.VERSION >= "0001"
    assert kept.project.info().revision == first.REVISION
    assert kept.project.info().key == "demo"
    assert [(one.code, one.severity) for one in kept.project.doctor.check().findings] == [
        ("claim_expired", "warning"),
        ("session_open", "info"),
        ("dependency_external", "info"),
    ]


def test_everything_in_it_is_served(kept: World) -> None:
    project = kept.project
    status = project.status()
    assert status.branch == "side"
    assert status.counts == {
        "work": {"open": 3},
        "sessions": {"active": 2, "ended": 1, "handed_off": 1, "interrupted": 1},
        "claims": {"active": 1, "expired": 2, "released": 1, "transferred": 1},
        "branches": {"closed": 1, "open": 2},
    }
    assert [one.type for one in project.events.list(limit=500).events] == first.EVENTS
    (note,) = project.events.list(type="note.taken").events
    assert note.body == {"text": "naïve", "n": [1, None, True]}
    assert [(one.name, one.state, one.selected) for one in project.branches.list().branches] == [
        ("main", "open", False),
        ("side", "open", True),
        ("old", "closed", False),
    ]
    assert [one.id for one in project.sessions.list().sessions] == [
        first.LAPSED,
        first.HOLDER,
        first.INTERRUPTED,
        first.CLAUDE,
        first.CODEX,
    ]
    shown = project.sessions.show(first.CLAUDE)
    assert (shown.session.predecessor, shown.session.state) == (first.CODEX, "ended")
    assert shown.checkpoint is not None
    assert (shown.checkpoint.digest, shown.checkpoint.open_loops) == (
        "half of it",
        ("who reads it?",),
    )
    assert shown.claim is not None
    assert (shown.claim.state, shown.claim.fence) == ("released", 2)
    evidence = project.evidence.list(branch="main").evidence
    assert [(one.kind, one.covers, one.currency) for one in evidence] == [
        ("test-run", ("it runs", "it is told of"), "current"),
        ("seen", ("other-repo:42",), "historical"),
    ]
    done = {one.key: one.completed for one in project.work.list(branch="main").work}
    assert done == {"A": True, "B": False, "C": False}
    assert [one.key for one in project.work.ready(branch="side").ready] == ["A"]


def test_its_requests_are_answered_as_they_were(kept: World) -> None:
    project = kept.project
    before = kept.everything()
    started = project.sessions.start(
        "A", "codex", provider="openai", model="gpt", claim=True, request_id="r-start"
    )
    assert (started.session.id, started.project_revision) == (first.CODEX, 3)
    assert started.claim is not None
    assert started.claim.fence == 1
    completed = project.work.complete("A", session=first.CLAUDE, request_id="r-complete")
    assert (completed.project_revision, completed.work.key) == (7, "A")
    noted = project.events.append(
        "note.taken",
        {"text": "naïve", "n": [1, None, True]},
        session=first.INTERRUPTED,
        request_id="r-note",
    )
    assert noted.event.seq == 20
    with refused("request_conflict"):
        project.events.append("note.taken", {}, request_id="r-note")
    assert kept.everything() == before


def test_it_goes_on_where_it_stopped(kept: World) -> None:
    project = kept.project
    with refused("claim_held") as found:
        project.sessions.start("C", "other", claim=True)
    assert found.value.details["session"] == first.HOLDER
    project.claims.release(first.HOLDER)
    taken = project.sessions.start("C", "other", claim=True).claim
    assert taken is not None
    assert taken.fence == 3
    over = project.sessions.start("B", "other", claim=True)
    assert [one.type for one in over.events] == [
        "session.started",
        "claim.expired",
        "claim.acquired",
    ]
    assert project.sessions.resume(first.INTERRUPTED, "again").session.branch == "side"
    assert project.source.scan().indexed
    assert project.info().revision == first.REVISION + 4
    assert [one for one in project.doctor.check().findings if one.severity == "error"] == []


# --- a later program ----------------------------------------------------------------------------


def served(answers: dict[str, Any]) -> None:
    """What a later program says of it, once it took its step."""
    assert [one["type"] for one in answers["events.list"]["events"]] == first.EVENTS
    assert answers["info"]["revision"] == first.REVISION
    assert answers["claims.show"]["claim"]["session"] == first.HOLDER


def test_a_later_program_takes_its_step_and_serves_it(tmp_path: Path) -> None:
    first.lay(tmp_path / "kept")
    world = World(tmp_path / "kept", FixedClock(first.CLOCK_MS), cast(Project, None))
    before = world.everything()
    peer = Peer(world.root, clock_ms=first.CLOCK_MS, package=next_version(tmp_path / "next"))
    served(
        {
            "info": peer.ask("info")["answer"],
            "events.list": peer.ask("events.list", limit=500)["answer"],
            "claims.show": peer.ask("claims.show", "C")["answer"],
        }
    )
    assert world.rows("alembic_version") == [("0002",)]
    # Every row is as it was, but for the column that is new.
    after = world.everything()
    assert [row[:-1] for row in after.pop("sessions")] == before.pop("sessions")
    assert {row[-1] for row in world.rows("sessions")} == {"fine"}
    assert after == before
    peer.end()


def test_ten_processes_take_the_step_once(tmp_path: Path) -> None:
    """They come at the same moment, and each of them writes as soon as it is in."""
    first.lay(tmp_path / "kept")
    world = World(tmp_path / "kept", FixedClock(first.CLOCK_MS), cast(Project, None))
    package = next_version(tmp_path / "next")
    peers = [Peer(world.root, clock_ms=first.CLOCK_MS + 60_000, package=package) for _ in range(10)]
    for number, peer in enumerate(peers):
        peer.send("sessions.start", ("A", "B", "C")[number % 3], f"agent-{number}")
    answers = [peer.answer() for peer in peers]
    assert [answer for answer in answers if "answer" not in answer] == []
    assert world.rows("alembic_version") == [("0002",)]
    # Rows of before the step have what it gave them; had it been taken twice, so would later ones.
    moods = {row[2]: row[-1] for row in world.rows("sessions")}
    new = {answer["answer"]["session"]["id"] for answer in answers}
    assert {one for one, mood in moods.items() if mood is None} == new
    assert len(moods) == 15
    revisions = sorted(answer["answer"]["project_revision"] for answer in answers)
    assert revisions == list(range(first.REVISION + 1, first.REVISION + 11))
    events = peers[0].ask("events.list", limit=500)["answer"]["events"]
    assert [one["type"] for one in events] == [*first.EVENTS, *["session.started"] * 10]
    assert peers[0].ask("look")["answer"]["read_only"] == ""
    for peer in peers:
        peer.end()


def test_killed_at_any_statement_the_step_is_whole_or_not_taken(tmp_path: Path) -> None:
    first.lay(tmp_path / "kept")
    dying = Dying(next_version(tmp_path / "next"))

    def copy(name: str) -> World:
        shutil.copytree(tmp_path / "kept", tmp_path / name)
        return World(tmp_path / name, FixedClock(first.CLOCK_MS), cast(Project, None))

    def everything(world: World) -> dict[str, Any]:
        tables = {"alembic_version": world.rows("alembic_version"), **world.everything()}
        return tables | {"definitions": definitions(world.file)}

    before = everything(copy("before"))
    world = copy("whole")
    statements = dying.ask(world.root, first.CLOCK_MS, "open")["statements"]
    whole = everything(world)
    assert whole["alembic_version"] == [("0002",)]
    begun = statements.index("BEGIN IMMEDIATE")
    altered = next(at for at, one in enumerate(statements) if "ALTER TABLE" in one)
    committed = statements.index("COMMIT", altered)
    assert begun < altered < committed
    # From the look at the version to the commit, and one behind it.
    steps = range(begun + 1, committed + 3)
    for point in steps if DEEP else (*steps[::6], altered + 1, altered + 2, *steps[-2:]):
        world = copy(f"dying-{point}")
        assert dying.ask(world.root, first.CLOCK_MS, "open", point=point) == {"gone": -9}
        assert everything(world) == (before if point <= committed + 1 else whole), point
        assert "answer" in dying.ask(world.root, first.CLOCK_MS, "open")
        assert everything(world) == whole
        shutil.rmtree(world.root)
    dying.end()
