"""What the contract asks of a kind of store: a project, and the same one opened by others.

A new kind of store is one more entry in `STORES`. Tests of the contract know nothing else of it:
no table, and no file but the work files, which lie in `root`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from callboard.clock import FixedClock
from callboard.project.project import Project
from tests.project.world import make_world


class Opened(Protocol):
    """A project that is open, its clock, its folder, and the way to open it once more."""

    root: Path
    clock: FixedClock
    project: Project

    def open(self, *, actor: str = "local") -> Project: ...

    def end(self) -> None: ...


STORES: dict[str, Callable[[Path], Opened]] = {"sqlite": make_world}
