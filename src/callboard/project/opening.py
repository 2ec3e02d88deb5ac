"""How a project's database is found, made, brought up to date and opened.

Making it is whole or nothing, however many processes do so at once. Opening for reading only
changes nothing, and neither does opening what a newer program wrote.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from callboard.errors import CallboardError
from callboard.project import migrating, mounts, names, schema, sqlite_file
from callboard.project.queries import whole
from callboard.project.queries.whole import Found
from callboard.project.store import PERSON, Backing, Now, Store
from callboard.project.unit import new_id


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a project is opened with: who asks, whose time counts, and how the machine is.

    None of it comes from a caller but the actor, who is a word, and the patience, a number.
    """

    actor: str
    now_ms: Now = sqlite_file.now_ms
    mounts: Path = mounts.SYSTEM
    busy_ms: int = sqlite_file.BUSY_MS


_ADDRESS = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]{1,30}://|"
    # As paths, which have one slash where two were.
    r"(?:postgres|postgresql|mysql|mariadb|sqlite|oracle|mssql|https?)(?:\+[a-z0-9_]+)?:/"
)


def file_of(root: Path) -> Path:
    """Where the database of the project at `root` lies."""
    return root / sqlite_file.FOLDER / sqlite_file.FILE


def root_of(path: str | Path) -> Path:
    """The root folder that a caller named."""
    text = names.folder(path)
    address = _ADDRESS.match(text)
    if address or "://" in text:
        # No more than this is told: names and passwords stand behind it.
        kind = address[0] if address else "…"
        raise CallboardError(
            "database_unsupported",
            f"what begins with {kind!r} is the address of a service, not a folder",
            "give the project's folder",
        )
    try:
        root = Path(text).resolve()
        str(root).encode()
        return root
    except UnicodeEncodeError as error:
        raise CallboardError(
            "project_unreadable",
            f"the folder {names.shown(text)} has a name that is no UTF-8",
            "give the folder another name, or choose another one",
        ) from error
    except (OSError, ValueError) as error:
        raise CallboardError(
            "project_unreadable",
            f"the folder {names.shown(text)} cannot be found: {error}",
            "check the path",
        ) from error


def open_store(path: str | Path, around: Surroundings, *, read_only: bool) -> Store:
    """The store of the project at `path`; an older schema is brought up to date, if it may be.

    Raises `project_missing`, `schema_newer`, `schema_older` (read only), `project_foreign`,
    `filesystem_unsupported`, `project_corrupt`, `project_readonly`, `project_unreadable`, `busy`,
    `disk_full`.
    """
    root = root_of(path)
    file = file_of(root)
    mounts.check(file, around.mounts)
    if not sqlite_file.check_file(file):
        raise missing(root)
    engine = sqlite_file.engine_on(file, read_only=read_only, busy_ms=around.busy_ms)
    with _given_up(engine, file):
        project = _found(engine, root, read_only=read_only)
        if not read_only and not sqlite_file.keeps_wal(file):
            sqlite_file.keep_wal(file, busy_ms=around.busy_ms)
    return _store(engine, root, project, around, read_only=read_only)


def create_store(path: str | Path, key: str | None, around: Surroundings) -> Store:
    """The store of the project at `path`, which is made if there is none yet.

    Raises `project_exists` where one of another key is there, and as `open_store`.
    """
    root = root_of(path)
    file = file_of(root)
    chosen = names.name(root.name or "project" if key is None else key, "project key")
    mounts.check(file, around.mounts)
    sqlite_file.check_file(file)
    sqlite_file.make_file(file)
    engine = sqlite_file.engine_on(file, busy_ms=around.busy_ms)
    with _given_up(engine, file):
        project = _ready(engine)
        if project is None:
            sqlite_file.keep_wal(file, busy_ms=around.busy_ms)
            project = _make(engine, chosen, around)
        if key is not None and project.key != chosen:
            raise CallboardError(
                "project_exists",
                f"there is a project {names.shown(project.key)} already",
                "open that one, or choose another folder",
                {"key": project.key},
            )
    return _store(engine, root, project, around, read_only=False)


@contextmanager
def _given_up(engine: Engine, file: Path) -> Iterator[None]:
    """Let go of the file where opening it fails, and tell what the database's errors mean."""
    try:
        yield
    except (DBAPIError, sqlite3.Error, *sqlite_file.UNREADABLE) as error:
        engine.dispose()
        raise sqlite_file.refusal(error, file) from error
    except CallboardError:
        engine.dispose()
        raise


def _store(
    engine: Engine, root: Path, project: Found, around: Surroundings, *, read_only: bool
) -> Store:
    file = file_of(root)
    backing = Backing(
        engine,
        root,
        around.now_ms,
        partial(sqlite_file.refusal, path=file),
        sqlite_file.read_only(file) if read_only else None,
    )
    return Store(
        backing,
        tenant=whole.TENANT,
        project=project.id,
        actor=around.actor,
    )


def missing(root: Path) -> CallboardError:
    """That there is no project."""
    return CallboardError(
        "project_missing",
        f"there is no project in {names.shown(str(root), names.PATH_SHOWN)}",
        "run `callboard project init` in the project's folder, or name another one",
    )


def _ready(engine: Engine) -> Found | None:
    """The project, if the schema is this program's; one look, nothing is changed."""
    with engine.begin() as connection:
        return (
            whole.only_project(connection)
            if migrating.version_of(connection) == schema.VERSION
            else None
        )


def _found(engine: Engine, root: Path, *, read_only: bool) -> Found:
    project = _ready(engine)
    if project is not None:
        return project
    with engine.begin() as connection:
        version = migrating.version_of(connection)
    if version is not None and version < schema.VERSION:
        if read_only:
            raise CallboardError(
                "schema_older",
                f"the project is of schema {version}, and this program reads {schema.VERSION}",
                "open it once for writing; that brings it up to date",
                {"found": version, "known": schema.VERSION},
            )
        migrating.migrate(engine)
        project = _ready(engine)
    if project is None:
        raise missing(root)
    return project


def _make(engine: Engine, key: str, around: Surroundings) -> Found:
    """Tables and project in one transaction; whoever comes second finds both."""
    with engine.execution_options(writes=True).begin() as connection:
        if migrating.version_of(connection) != schema.VERSION:
            migrating.upgrade(connection, schema.VERSION)
        project = whole.only_project(connection)
        if project is None:
            project = Found(new_id("p"), key)
            whole.write_first_rows(
                connection,
                project,
                person=PERSON,
                event=new_id("e"),
                at_ms=around.now_ms(connection),
            )
    return project
