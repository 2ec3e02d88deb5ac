"""Opening a project by way of the wing's inner rooms, with the time and the mounts of a test.

The façade takes neither from a caller. A clock that is given stands for the database's, for the
project that is opened with it alone.
"""

from __future__ import annotations

from pathlib import Path

from callboard.clock import Clock
from callboard.project import doctor, mounts, opening, sqlite_file
from callboard.project.access import refuse_plainly
from callboard.project.answers import Diagnosis
from callboard.project.opening import Surroundings
from callboard.project.project import Project


def around(
    clock: Clock | None,
    *,
    actor: str = "local",
    table: Path = mounts.SYSTEM,
    busy_ms: int = sqlite_file.BUSY_MS,
) -> Surroundings:
    """What a project is opened with; no clock: the database's."""
    if clock is None:
        return Surroundings(actor, mounts=table, busy_ms=busy_ms)
    return Surroundings(actor, lambda _connection: clock.now_ms(), table, busy_ms)


def open_project(root: str | Path, around: Surroundings, *, read_only: bool = False) -> Project:
    """As `Project.open`."""
    return refuse_plainly(
        lambda: Project(opening.open_store(root, around, read_only=read_only), around),
    )


def create_project(root: str | Path, around: Surroundings, key: str | None = None) -> Project:
    """As `Project.create`."""
    return refuse_plainly(lambda: Project(opening.create_store(root, key, around), around))


def diagnose(root: str | Path, around: Surroundings) -> Diagnosis:
    """As `Project.diagnose`."""
    return refuse_plainly(lambda: doctor.diagnose(root, around))
