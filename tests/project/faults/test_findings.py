"""What the doctor finds where another program wrote to the file, and codes that are seldom met."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path

import pytest

from callboard.project.source.answers import SetFields
from callboard.project.source.place import Place
from tests.project.scenarios import PATCHED, WORK
from tests.project.world import World, refused

LIMIT = 1000


def errors(world: World) -> list[tuple[str, str | None]]:
    diagnosis = world.project.doctor.check()
    found = [(one.code, one.subject) for one in diagnosis.findings if one.severity == "error"]
    assert diagnosis.healthy == (not found)
    return found


def forget(world: World, seq: int) -> None:
    """Take an event away, as only a program can that means harm, and leave no other trace."""
    raw = world.raw()
    (trigger,) = raw.execute(
        "SELECT sql FROM sqlite_schema WHERE name = 'keep_events_delete'"
    ).fetchone()
    raw.execute("DROP TRIGGER keep_events_delete")
    assert raw.execute("DELETE FROM events WHERE seq = ?", (seq,)).rowcount == 1
    raw.execute(trigger)
    raw.close()


@pytest.mark.parametrize("which", ["first", "last"])
def test_an_event_that_was_taken_away(world: World, which: str) -> None:
    """One of the two of a revision, so the revision has one still; also the latest there is."""
    first, last = world.project.sessions.start("A", "codex", claim=True).events
    assert errors(world) == []
    forget(world, {"first": first.seq, "last": last.seq}[which])
    assert errors(world) == [("event_gap", None)]
    finding = next(one for one in world.project.doctor.check().findings if one.severity == "error")
    assert finding.details == {
        "events": last.seq - 1,
        "last": {"first": last.seq, "last": first.seq}[which],
        "written": last.seq,
    }


def test_all_events_of_a_revision_that_were_taken_away(world: World) -> None:
    note = world.project.events.append("note.taken", {}).event
    forget(world, note.seq)
    assert errors(world) == [("revision_gap", None), ("event_gap", None)]


def test_an_index_that_says_something_else_than_its_table(world: World) -> None:
    world.project.sessions.start("A", "codex", claim=True)
    world.project.close()
    raw = world.raw()
    raw.execute("PRAGMA writable_schema = ON")
    changed = raw.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'project, state)', 'project, agent)') "
        "WHERE name = 'ix_claims_tenant_project_state'"
    )
    assert changed.rowcount == 1
    raw.close()
    world.project = world.open()
    found = errors(world)
    assert found
    assert {code for code, _subject in found} == {"integrity"}


def test_a_guard_that_is_gone_or_says_something_else(world: World) -> None:
    raw = world.raw()
    raw.execute("DROP TRIGGER keep_receipts_update")
    raw.execute("DROP TRIGGER keep_events_update")
    raw.execute("CREATE TRIGGER keep_events_update BEFORE UPDATE ON events BEGIN SELECT 1; END")
    raw.close()
    assert sorted(errors(world)) == [
        ("guard_missing", "keep_events_update"),
        ("guard_missing", "keep_receipts_update"),
    ]


def test_a_row_that_refers_to_nothing(world: World) -> None:
    world.project.sessions.start("A", "codex")
    raw = world.raw()
    raw.execute("UPDATE sessions SET branch = 'gone'")
    raw.close()
    assert errors(world) == [("foreign_key", "sessions")]


def test_fifty_of_a_kind_and_how_many_more(world: World) -> None:
    for number in range(52):
        world.project.sessions.start("A", f"agent-{number}")
    found = world.project.doctor.check().findings
    assert [one.code for one in found] == ["session_open"] * 50 + ["more_findings"]
    assert (found[-1].severity, found[-1].subject) == ("info", None)
    assert found[-1].details == {"of": "session_open", "more": 2}


# --- codes that are seldom met ------------------------------------------------------------------


@pytest.mark.parametrize("path", ["x" * 300, "x" * 300 + "/work.yaml"])
def test_a_file_that_the_system_does_not_open(tmp_path: Path, path: str) -> None:
    with refused("file_unreadable") as found:
        Place(tmp_path).read(path, LIMIT)
    assert "too long" in found.value.message


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    for act in (
        lambda: Place(tmp_path / "gone").read("work.yaml", LIMIT),
        lambda: Place(tmp_path / "gone").create("work.yaml", b""),
    ):
        with refused("file_unreadable"):
            act()


def test_a_project_whose_folder_was_moved_away_says_which_file_it_misses(world: World) -> None:
    aside = world.root.with_name("aside")
    world.root.rename(aside)
    try:
        with refused("file_unreadable") as found:
            world.project.source.scan()
        # A long path is told by its beginning.
        assert str(world.root)[:60] in found.value.message
    finally:
        aside.rename(world.root)


def test_a_folder_whose_writer_hangs(world: World) -> None:
    """Ten seconds are waited for it; then nothing is written, neither file nor rows."""
    file = world.root / "work.yaml"
    file.write_text(WORK)
    world.project.source.index()
    before = world.everything()
    change = [SetFields(work="A", values={"title": "One and all"})]
    descriptor = os.open(world.root, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with refused("source_busy"):
            world.project.source.patch(change, accept=True)
    finally:
        os.close(descriptor)
    assert file.read_text() == WORK
    assert world.everything() == before
    world.project.source.patch(change, accept=True)
    assert file.read_text() == PATCHED


def test_a_project_that_was_closed(world: World) -> None:
    project = world.open()
    project.close()
    project.close()
    for act in (project.info, project.branches.list, project.doctor.check, project.source.scan):
        with refused("project_closed"):
            act()


def test_a_project_whose_row_is_gone(world: World) -> None:
    raw = world.raw()
    raw.execute("UPDATE projects SET project = 'other'")
    raw.close()
    for act in (world.project.info, lambda: world.project.branches.create("side")):
        with refused("project_missing"):
            act()


def test_a_table_that_is_gone(world: World) -> None:
    raw = world.raw()
    raw.execute("DROP TABLE checkpoints")
    raw.close()
    session = world.project.sessions.start("A", "codex").session.id
    before = world.project.info()
    with refused("storage_failed") as found:
        world.project.sessions.checkpoint(session, "x", "y")
    assert "nothing was written" in found.value.hint
    assert world.project.info() == before


def test_a_path_with_a_nul(tmp_path: Path) -> None:
    from callboard.project.project import Project

    for act in (Project.open, Project.create, Project.diagnose, Project.init):
        with refused("project_unreadable"):
            act(f"{tmp_path}\0x")


def test_sqlite_is_what_is_meant(world: World) -> None:
    """The tests above went past the program; without that, none of it can be done."""
    raw = world.raw()
    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        raw.execute("DELETE FROM events")
    raw.close()
