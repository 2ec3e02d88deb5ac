"""Project: what surfaces and users call.

It offers observations and operations, and nothing that leads to the database. Rules live below it.
"""

from __future__ import annotations

from pathlib import Path

from callboard.project import doctor, names, opening, starting
from callboard.project.access import close, read, refuse_plainly, register
from callboard.project.answers import Diagnosis, Status
from callboard.project.groups.branches import Branches
from callboard.project.groups.claims import Claims
from callboard.project.groups.doctor import Doctor
from callboard.project.groups.events import Events
from callboard.project.groups.evidence import EvidenceKept
from callboard.project.groups.receipts import Receipts
from callboard.project.groups.sessions import Sessions
from callboard.project.groups.source import Source
from callboard.project.groups.work import Work
from callboard.project.names import LOCAL
from callboard.project.opening import Surroundings
from callboard.project.operations import work
from callboard.project.records import ProjectInfo
from callboard.project.source.answers import Initialized
from callboard.project.sqlite_file import BUSY_MS
from callboard.project.store import Store
from callboard.project.unit import Scope

__all__ = ["Project"]


class Project:
    """One project. Close it, or use it as a context; several processes may have it open."""

    __slots__ = (
        "_key",
        "branches",
        "claims",
        "doctor",
        "events",
        "evidence",
        "receipts",
        "sessions",
        "source",
        "work",
    )

    def __init__(self, store: Store, around: Surroundings) -> None:
        key = register(store, around)
        self._key = key
        self.sessions = Sessions(key)
        self.claims = Claims(key)
        self.branches = Branches(key)
        self.events = Events(key)
        self.work = Work(key)
        self.evidence = EvidenceKept(key)
        self.source = Source(key)
        self.receipts = Receipts(key)
        self.doctor = Doctor(key)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        actor: str = LOCAL,
        read_only: bool = False,
        busy_ms: int = BUSY_MS,
    ) -> Project:
        """The project in the folder `path`; its database is `.callboard/project.db` there.

        An older schema is brought up to date, unless `read_only`. `busy_ms`: how long a change
        waits for other processes. Raises as `opening.open_store` says.
        """
        around = _around(actor, busy_ms)
        return refuse_plainly(
            lambda: cls(opening.open_store(path, around, read_only=bool(read_only)), around)
        )

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        key: str | None = None,
        actor: str = LOCAL,
        busy_ms: int = BUSY_MS,
    ) -> Project:
        """As `open`, making the project if there is none; `key` None: the folder's name.

        Raises `project_exists` where one of another key is there.
        """
        around = _around(actor, busy_ms)
        return refuse_plainly(lambda: cls(opening.create_store(path, key, around), around))

    @staticmethod
    def diagnose(
        path: str | Path,
        *,
        busy_ms: int = BUSY_MS,
    ) -> Diagnosis:
        """What the doctor says of the project at `path`, also of one that cannot be opened.

        Nothing is changed. Raises `project_missing`.
        """
        around = _around(LOCAL, busy_ms)
        return refuse_plainly(lambda: doctor.diagnose(path, around))

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database; everything else of the project is refused afterwards."""
        close(self._key)

    def info(self) -> ProjectInfo:
        """Id, key and present revision."""
        return read(self._key, _info)

    def status(self, *, branch: str | None = None) -> Status:
        """The project at a glance, with the first work that can be begun on a branch.

        `branch` None: the selected one. Raises `not_found`.
        """
        on = names.optional_name(branch, "branch")
        return read(self._key, lambda scope: work.status(scope, branch=on, limit=work.READY_SHOWN))

    @classmethod
    def init(
        cls,
        path: str | Path,
        *,
        goal: str | None = None,
        accept: bool = False,
        key: str | None = None,
        expected_revision: int | None = None,
        request_id: str | None = None,
        actor: str = LOCAL,
        busy_ms: int = BUSY_MS,
    ) -> Initialized:
        """Propose a work file for the folder `path`; with `accept` write it, make the project
        where there is none, and index.

        Nothing is changed without `accept`, and no file that is there is ever changed. An
        `expected_revision` of 0 means that there is no project yet. Raises as `create`,
        `revision_conflict`, `request_conflict`, and `source_invalid` where a work file is there and
        has faults.
        """
        around = _around(actor, busy_ms)
        start = starting.Start(
            goal,
            names.optional_name(key, "project key"),
            bool(accept),
            names.revision(expected_revision),
            names.request_id(request_id),
        )
        return refuse_plainly(lambda: starting.init(path, start, around))


def _info(scope: Scope) -> ProjectInfo:
    return ProjectInfo(id=scope.project, key=scope.key, revision=scope.revision)


def _around(actor: str, busy_ms: int) -> Surroundings:
    return Surroundings(names.name(actor, "actor"), busy_ms=names.patience(busy_ms))
