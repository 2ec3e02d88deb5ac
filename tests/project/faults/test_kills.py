"""A process that is killed at any of its statements leaves the whole change, or nothing of it.

Killed after the commit and before its answer it leaves the whole change, and whoever asks again by
the same request id gets the answer that was lost. `dying` says what a statement is here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from callboard.clock import FixedClock
from callboard.project.project import Project
from tests.ambient import DEEP
from tests.project.faults.dying import UNANSWERED, Dying
from tests.project.faults.stored import requests, stored
from tests.project.scenarios import PATCHED, SCENARIOS, WORK, Call
from tests.project.world import TABLES, World, make_world

REQUEST = "r-kill"
# These write files too: what is left of one by itself is looked at in a test of its own.
WRITES_FILES = {"source patch"}
GONE = {"gone": -9}


def points(count: int, short: int = 2) -> list[int]:
    """The statements to die at, the last one being the commit; `short`: how many at least."""
    stride = 1 if DEEP else max(1, count // short)
    return sorted({*range(1, count + 1, stride), count})


def copied(first: World, root: Path) -> World:
    """A copy of a project that nobody has open, at the same time."""
    shutil.copytree(first.root, root)
    made = World(root, FixedClock(first.clock.now_ms()), first.project)
    made.project = made.open()
    return made


class Kill:
    """One change that is to be killed: where it begins, what it asks, and what is whole."""

    def __init__(self, dying: Dying, folder: Path, name: str) -> None:
        self.dying = dying
        self.folder = folder
        self.first = make_world(folder / "first")
        self.call: Call = SCENARIOS[name].prepare(self.first)
        self.now_ms = self.first.clock.now_ms()
        self.first.end()

    def ask(self, world: World, point: int = 0, request: str | None = REQUEST) -> dict[str, Any]:
        """What a process came to that asks for the change."""
        more = {} if request is None else {"request_id": request}
        method, arguments, named = self.call.method, self.call.arguments, self.call.named | more
        return self.dying.ask(world.root, self.now_ms, method, *arguments, point=point, **named)

    @contextmanager
    def world(self, name: str) -> Iterator[World]:
        """A copy to do it to."""
        made = copied(self.first, self.folder / name)
        yield made
        made.end()
        shutil.rmtree(made.root)

    def whole(self, request: str | None = REQUEST) -> tuple[Any, list[str], dict[str, Any]]:
        """What is stored after the change, its statements, and its answer."""
        with self.world("whole") as world:
            found = self.ask(world, request=request)
            assert "answer" in found, found
            return stored(world), found["statements"], found["answer"]


@pytest.mark.parametrize("name", [one for one in SCENARIOS if one not in WRITES_FILES])
def test_a_change_is_whole_or_not_there(dying: Dying, tmp_path: Path, name: str) -> None:
    kill = Kill(dying, tmp_path, name)
    whole, statements, _answer = kill.whole()
    assert statements[0] == "BEGIN IMMEDIATE" or name.startswith("source")
    assert statements[-1] == "COMMIT"
    assert sum("INSERT INTO events" in one for one in statements) >= 1
    for point in points(len(statements)):
        with kill.world(f"dying-{point}") as world:
            before = world.everything()
            assert kill.ask(world, point) == GONE
            assert world.everything() == before
            assert "answer" in kill.ask(world)
            assert stored(world) == whole
            errors = [one for one in world.project.doctor.check().findings if is_error(one)]
            assert errors == []


def is_error(finding: Any) -> bool:
    return bool(finding.severity == "error")


@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_before_its_answer_a_change_is_there_once(
    dying: Dying, tmp_path: Path, name: str
) -> None:
    """The case that request ids are for: committed, never answered, asked again."""
    kill = Kill(dying, tmp_path, name)
    whole, _statements, answered = kill.whole()
    with kill.world("unanswered") as world:
        assert requests(world) == []
        assert kill.ask(world, UNANSWERED) == GONE
        assert stored(world) == whole
        assert requests(world) == [REQUEST]
        left = world.everything()
        again = kill.ask(world)["answer"]
        assert again == kill.ask(world)["answer"]
        assert world.everything() == left
        # It is the answer of the process that died: the ids in it are those that are stored.
        receipt = world.project.receipts.show(REQUEST).receipt
        assert receipt.outcome == again
        assert again["project_revision"] == answered["project_revision"] == receipt.revision
        assert again.keys() == answered.keys()
        own = {event.id for event in world.project.events.list(limit=500).events}
        assert {event["id"] for event in events_of(again)} <= own
        # Other words under the same id are refused, also now.
        other = dying.ask(world.root, kill.now_ms, "branches.create", "other", request_id=REQUEST)
        assert other["error"]["code"] == "request_conflict"


def events_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return list(answer["events"]) if "events" in answer else [answer["event"]]


@pytest.mark.parametrize("name", SCENARIOS)
def test_without_a_request_id_the_state_tells_what_happened(
    dying: Dying, tmp_path: Path, name: str
) -> None:
    kill = Kill(dying, tmp_path, name)
    whole, _statements, _answer = kill.whole(request=None)
    with kill.world("unanswered") as world:
        before = world.project.info().revision
        assert kill.ask(world, UNANSWERED, request=None) == GONE
        assert stored(world) == whole
        assert requests(world) == []
        assert world.project.info().revision == before + 1
        events = world.project.events.list(limit=500).events
        told = [one.type for one in events if one.revision == before + 1]
        assert tuple(told) == SCENARIOS[name].told
        # Asked again it is another request, and is judged by what is there.
        again = kill.ask(world, request=None)
        if SCENARIOS[name].again is None:
            assert again["answer"]["project_revision"] == before + 2
        else:
            assert again["error"]["code"] == SCENARIOS[name].again


def test_a_patch_leaves_a_whole_file_and_says_where_it_is(dying: Dying, tmp_path: Path) -> None:
    """Rows, then the file, then the commit: only there can the file be newer than the rows."""
    kill = Kill(dying, tmp_path, "source patch")
    whole, statements, _answer = kill.whole()
    last = len(statements)
    # Each of the last ones: receipt and revision come before the file too.
    for point in sorted({*points(last), *range(last - 6, last)}):
        with kill.world(f"dying-{point}") as world:
            before = world.everything()
            assert kill.ask(world, point) == GONE
            assert world.everything() == before
            file = world.root / "work.yaml"
            assert list(world.root.glob(".*.tmp")) == []
            if point < last:
                assert file.read_text() == WORK
                assert "answer" in kill.ask(world)
                assert stored(world) == whole
                continue
            assert file.read_text() == PATCHED
            assert kill.ask(world)["error"]["code"] == "source_conflict"
            assert not world.project.source.scan().indexed
            found = {one.code for one in world.project.doctor.check().findings}
            assert "source_changed" in found
            world.project.source.index()
            assert world.project.work.show("A").work.title == "One and all"
            assert world.project.source.scan().indexed


def test_making_a_project_is_whole_or_not_there(dying: Dying, tmp_path: Path) -> None:
    """`init` makes a file, a database and an index of it; asked again it makes what is missing."""

    def init(root: Path, point: int = 0) -> dict[str, Any]:
        root.mkdir(exist_ok=True)
        return dying.ask(root, 0, "init", point=point, goal="Try it", key="demo", accept=True)

    def left(root: Path) -> dict[str, int]:
        world = World(root, FixedClock(0), Project.open(root))
        assert [one for one in world.project.doctor.check().findings if is_error(one)] == []
        rows = {table: len(world.rows(table)) for table in TABLES}
        world.end()
        return rows

    found = init(tmp_path / "whole")
    whole = left(tmp_path / "whole")
    text = (tmp_path / "whole" / "work.yaml").read_bytes()
    assert found["answer"]["project_revision"] == 2
    count = len(found["statements"])
    assert count > 40
    for point in [*points(count, 6), UNANSWERED]:
        root = tmp_path / f"dying-{point}"
        assert init(root, point) == GONE
        assert init(root)["answer"]["project_revision"] == 2
        assert left(root) == whole
        assert (root / "work.yaml").read_bytes() == text
        assert sorted(one.name for one in root.iterdir()) == [".callboard", "work.yaml"]
        again = init(root)["answer"]
        assert again["project_revision"] == 2
        assert [one["action"] for one in again["files"]] == ["keep", "keep"]
