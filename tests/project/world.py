"""A project of a test's own: its folder, a clock that stands, some work, and other processes at it.

The work is `A`, `B` and `C`; `A` has two acceptance criteria, `C` depends on `A`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from callboard.canonical import sha256_hex
from callboard.clock import Clock, FixedClock
from callboard.errors import CallboardError
from callboard.project.project import Project
from callboard.project.records import SourceFile, WorkItem
from tests.project import indexing
from tests.project.inner import around, create_project, open_project
from tests.project.peers import Peer

NOW_MS = 1_700_000_000_000
SOURCE = b"what the work was read from\n"
SHA = sha256_hex(SOURCE)


def item(key: str, **more: Any) -> WorkItem:
    """Work as a file might have it."""
    return WorkItem(key=key, title=f"Do {key}", source_file="work.yaml", source_sha256=SHA, **more)


ITEMS = (
    item("A", acceptance=("it runs", "it is told of")),
    item("B"),
    item("C", depends_on=("A",)),
)


@dataclass
class World:
    """A project in a folder, and everybody who has it open."""

    root: Path
    clock: FixedClock
    project: Project
    peers: list[Peer] = field(default_factory=list)
    opened: list[Project] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """The database."""
        return self.root / ".callboard" / "project.db"

    def open(self, *, clock: Clock | None = None, read_only: bool = False, **more: Any) -> Project:
        """The project once more, as another program would open it; `more` as `inner.around`."""
        found = open_project(self.root, around(clock or self.clock, **more), read_only=read_only)
        self.opened.append(found)
        return found

    def peer(self, *, clock_ms: int | None = None, actor: str = "local") -> Peer:
        """Another process that has the project open."""
        found = Peer(self.root, clock_ms=clock_ms or self.clock.now_ms(), actor=actor)
        self.peers.append(found)
        return found

    def raw(self) -> sqlite3.Connection:
        """The file as any program may open it, without the settings of ours."""
        return sqlite3.connect(self.file, isolation_level=None)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Everything in a table."""
        connection = self.raw()
        try:
            return sorted(connection.execute(f"SELECT * FROM {table}"), key=str)
        finally:
            connection.close()

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of all tables; equal before and after what changed nothing."""
        return {table: self.rows(table) for table in TABLES}

    def end(self) -> None:
        """End all processes and let go of the file."""
        for peer in self.peers:
            peer.end()
        for project in (*self.opened, self.project):
            project.close()


TABLES = (
    "branches checkpoints claims completions events evidence projects receipts selections "
    "sessions sources work_dependencies work_items".split()
)


def make_world(root: Path, items: Sequence[WorkItem] = ITEMS) -> World:
    """A new project with work."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "work.yaml").write_bytes(SOURCE)
    clock = FixedClock(NOW_MS)
    project = create_project(root, around(clock), "demo")
    indexing.replace(
        project, items, (), (SourceFile(path="work.yaml", sha256=SHA, size_bytes=len(SOURCE)),)
    )
    return World(root, clock, project)


@contextmanager
def refused(code: str) -> Iterator[pytest.ExceptionInfo[CallboardError]]:
    """What is done inside is refused with `code`."""
    with pytest.raises(CallboardError) as found:
        yield found
    assert found.value.code == code, str(found.value)
    assert found.value.message
    assert found.value.hint
