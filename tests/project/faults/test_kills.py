"""A process that is killed before any of its statements leaves the whole change, or nothing of it.

The kill is SIGKILL, by the process itself, right before the n-th statement to the database.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from callboard.clock import FixedClock
from callboard.project.project import Project
from tests.ambient import DEEP
from tests.project.inner import around, open_project
from tests.project.patched import next_version
from tests.project.peers import Peer
from tests.project.world import NOW_MS, World, make_world

# Without the deep run: two changes, at the first and last statements and some in between.
STRIDE = 1 if DEEP else 8
SHORT = ("takeover", "handoff")

OPERATIONS: dict[str, tuple[Any, ...]] = {
    "takeover": ("sessions.start", "A", "claude", {"claim": True, "ttl_ms": 5000}),
    "handoff": ("sessions.handoff", "LIVE", "claude", {}),
    "end": ("sessions.end", "LIVE", {}),
    "release": ("claims.release", "LIVE", {}),
    "append": ("events.append", "note.taken", {"n": 1}, {}),
}


def ask(peer: Peer, operation: str, live: str) -> dict[str, Any]:
    method, *arguments, named = OPERATIONS[operation]
    given = [live if argument == "LIVE" else argument for argument in arguments]
    return peer.ask(method, *given, **named, request_id="r1")


def points(count: int, stride: int = STRIDE) -> list[int]:
    """The statements to die at, the last one being the commit."""
    return sorted({*range(1, count + 1, stride), count})


@pytest.mark.parametrize("operation", OPERATIONS if DEEP else SHORT)
def test_a_change_is_whole_or_not_there(tmp_path: Path, operation: str) -> None:
    first = make_world(tmp_path / "first")
    first.project.sessions.start("A", "codex", claim=True, ttl_ms=1000)
    live = first.project.sessions.start("B", "codex", claim=True, ttl_ms=900_000).session.id
    first.end()

    def world(name: str) -> World:
        root = tmp_path / name
        shutil.copytree(first.root, root)
        clock = FixedClock(NOW_MS + 2000)
        return World(root, clock, open_project(root, around(clock)))

    counting = world("counting")
    peer = counting.peer()
    peer.ask("open")
    peer.ask("crash_at", 0)
    answer = ask(peer, operation, live)
    count = peer.ask("statements")["answer"]
    whole = normal(counting)
    counting.end()
    assert "answer" in answer
    assert count > 5

    for point in points(count):
        dying = world(f"dying-{point}")
        before = dying.everything()
        peer = dying.peer()
        peer.ask("open")
        peer.ask("crash_at", point)
        assert ask(peer, operation, live) == {"gone": -9}
        assert dying.everything() == before
        again = dying.peer()
        assert "answer" in ask(again, operation, live)
        assert normal(dying) == whole
        assert dying.project.doctor.check().healthy
        dying.end()


def normal(world: World) -> dict[str, list[tuple[Any, ...]]]:
    """What is stored, with ids by their order instead of their chance."""
    seen: dict[str, str] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, str):
            for word in sorted(seen, key=len, reverse=True):
                value = value.replace(word, seen[word])
        return value

    everything = world.everything()
    for table in ("sessions", "claims", "events"):
        rows = sorted(everything[table], key=lambda row: [str(part) for part in row[3:]])
        for row in rows:
            for value in row:
                if isinstance(value, str) and value[:2] in ("s_", "c_", "e_") and len(value) == 34:
                    seen.setdefault(value, f"{value[:2]}?")
    return {
        table: sorted((tuple(plain(value) for value in row) for row in rows), key=str)
        for table, rows in everything.items()
    } | {"receipts": [], "projects": [row[3:5] for row in everything["projects"]]}


def test_making_a_project_is_whole_or_not_there(tmp_path: Path) -> None:
    peer = Peer(make_root(tmp_path / "counting"), clock_ms=NOW_MS)
    peer.ask("crash_at", 0)
    assert "answer" in peer.ask("create", "demo")
    count = peer.ask("statements")["answer"]
    peer.end()
    assert count > 40
    for point in points(count, 1 if DEEP else 17):
        root = make_root(tmp_path / f"dying-{point}")
        dying = Peer(root, clock_ms=NOW_MS)
        dying.ask("crash_at", point)
        assert dying.ask("create", "demo") == {"gone": -9}
        dying.end()
        with Project.create(root, key="demo") as project:
            assert project.info().revision == 1
            assert project.doctor.check().findings == ()


def test_a_step_is_whole_or_not_taken(tmp_path: Path) -> None:
    first = make_world(tmp_path / "first")
    first.project.sessions.start("A", "codex")
    first.end()
    package = next_version(tmp_path / "next")

    def copy(name: str) -> Path:
        shutil.copytree(first.root, tmp_path / name)
        return tmp_path / name

    peer = Peer(copy("counting"), clock_ms=NOW_MS, package=package)
    peer.ask("crash_at", 0)
    assert "answer" in peer.ask("open")
    count = peer.ask("statements")["answer"]
    peer.end()
    for point in points(count):
        root = copy(f"dying-{point}")
        dying = Peer(root, clock_ms=NOW_MS, package=package)
        dying.ask("crash_at", point)
        assert dying.ask("open") == {"gone": -9}
        dying.end()
        left = World(root, FixedClock(NOW_MS), first.project)
        version = left.rows("alembic_version")
        assert version in ([("0001",)], [("0002",)])
        assert len(left.rows("sessions")[0]) == (14 if version == [("0001",)] else 15)
        after = Peer(root, clock_ms=NOW_MS, package=package)
        assert "answer" in after.ask("open")
        assert left.rows("alembic_version") == [("0002",)]
        after.end()


def make_root(path: Path) -> Path:
    path.mkdir()
    return path
