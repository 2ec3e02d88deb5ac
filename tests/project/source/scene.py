"""A folder with work files, and what is read of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callboard.clock import FixedClock
from callboard.errors import CallboardError
from callboard.project.project import Project
from callboard.project.source.place import Place
from callboard.project.source.reading import WorkRead, read_work
from tests.project.inner import around, create_project

NOW = 1_800_000_000_000


def read(folder: Path, data: str | bytes, **more: str | bytes) -> WorkRead:
    """What work.yaml, and further files by their stems, say."""
    for name, content in {"work": data, **more}.items():
        put(folder / f"{name}.yaml", content)
    return read_work(Place(folder))


def put(path: Path, data: str | bytes) -> None:
    """Write a file as it is, line ends too."""
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def faults(folder: Path, data: str | bytes, **more: str | bytes) -> list[tuple[int, int, str, str]]:
    """Line, column, pointer and message of each fault."""
    found = read(folder, data, **more)
    assert found.fault_count == len(found.faults)
    return [(one.line, one.column, one.pointer, one.message) for one in found.faults]


def refused(code: str, act: Callable[[], Any]) -> CallboardError:
    """The refusal with which `act` ends."""
    with pytest.raises(CallboardError) as caught:
        act()
    assert caught.value.code == code, caught.value
    assert caught.value.hint
    return caught.value


def project(folder: Path, data: str, *, clock: FixedClock | None = None) -> Project:
    """A project with this work file, indexed."""
    put(folder / "work.yaml", data)
    made = create_project(folder, around(clock or FixedClock(NOW)), "demo")
    made.source.index()
    return made
