"""Condition 16: a selected branch is a person's view, and nothing of the project goes along."""

from __future__ import annotations

import subprocess

from tests.project.world import World

MOVABLE = ("sessions", "claims", "checkpoints", "evidence", "work_items", "branches")


def test_only_the_selection_changes(world: World) -> None:
    project = world.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", claim=True, ttl_ms=9000).session.id
    project.sessions.checkpoint(session, "half", "go on", open_loops=["one"])
    project.evidence.add("test", "green", session=session, covers=["it runs"])
    before = {table: world.rows(table) for table in MOVABLE}
    evidence = project.evidence.list(branch="main", current=True).evidence
    history = project.events.list(limit=500).events
    subprocess.run(["git", "init", "-q", "-b", "side", world.root], check=True)
    files = files_of(world)
    answer = project.branches.select("side")
    assert answer.branch.selected
    assert {table: world.rows(table) for table in MOVABLE} == before
    assert project.events.list(limit=500).events[: len(history)] == history
    assert project.evidence.list(branch="main", current=True).evidence == evidence
    # Git has a branch of that name, and nobody asked it.
    assert files_of(world) == files
    shown = project.sessions.show(session)
    assert shown.session.branch == "main"
    assert shown.claim is not None
    assert (shown.claim.state, shown.claim.branch) == ("active", "main")
    assert shown.checkpoint is not None
    # The session still works where it is.
    assert project.sessions.checkpoint(session, "more", "end").checkpoint.session == session
    assert project.events.append("note.taken", {}, session=session).event.branch == "main"
    assert project.claims.release(session).claim.branch == "main"


def files_of(world: World) -> dict[str, bytes]:
    """All files but those of the database; Git's too, HEAD and index among them."""
    found = [path for path in world.root.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(world.root)): path.read_bytes()
        for path in found
        if ".callboard" not in path.parts
    }


def test_what_is_new_goes_to_the_selected_one(world: World) -> None:
    project = world.project
    project.branches.create("side")
    other = world.open()
    other.branches.select("side")
    assert project.sessions.start("A", "codex").session.branch == "side"
    assert project.status().branch == "side"
    assert [branch.name for branch in project.branches.list().branches if branch.selected] == [
        "side"
    ]


def test_work_is_seen_from_every_branch(world: World) -> None:
    project = world.project
    before = project.work.list().work
    project.branches.create("side")
    project.branches.select("side")
    assert project.work.list().work == before
