"""One look at a project: at its file from outside, at a copy of it, then at what the copy tells."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from callboard.errors import CallboardError
from callboard.project import migrating, opening, schema, sqlite_file
from callboard.project.answers import Diagnosis
from callboard.project.doctor import contents, database, file, rows, sources
from callboard.project.doctor.findings import few, finding, refused
from callboard.project.opening import Surroundings
from callboard.project.queries import whole
from callboard.project.records import Finding
from callboard.project.store import Backing, Store
from callboard.project.unit import Scope


def diagnose(path: str | Path, around: Surroundings) -> Diagnosis:
    """What there is to say about the project at `path`. Raises `project_missing`."""
    root = opening.root_of(path)
    at = opening.file_of(root)
    found = list(file.place(at, around))
    revision, version = None, None
    if not any(one.severity == "error" for one in found):
        if not sqlite_file.check_file(at):
            raise opening.missing(root)
        try:
            found += file.modes(at)
            found += file.ignored(root)
            revision, version, more = _inside(root, at, around)
            found += more
        except CallboardError as error:
            if error.code == "project_missing":
                raise
            found.append(refused(error))
        except OSError as error:
            found.append(refused(sqlite_file.unreadable(at, error)))
    healthy = not any(one.severity == "error" for one in found)
    return Diagnosis(
        project_revision=revision,
        schema_version=version,
        healthy=healthy,
        findings=tuple(found),
    )


def _inside(
    root: Path, at: Path, around: Surroundings
) -> tuple[int | None, str | None, list[Finding]]:
    try:
        engine = sqlite_file.snapshot_of(at, busy_ms=around.busy_ms)
        try:
            return _looked(engine, root, around)
        finally:
            engine.dispose()
    except (DBAPIError, sqlite3.Error, *sqlite_file.UNREADABLE) as error:
        raise sqlite_file.refusal(error, at) from error


def _looked(
    engine: Engine, root: Path, around: Surroundings
) -> tuple[int | None, str | None, list[Finding]]:
    with engine.begin() as connection:
        version = migrating.version_of(connection)
        found = list(database.soundness(connection))
    if version is None:
        # Whoever was making it stopped, or had no room.
        raise opening.missing(root)
    if version != schema.VERSION:
        found.append(
            finding(
                "schema_older",
                f"the database is of schema {version}, this program's is {schema.VERSION}",
                found=version,
                known=schema.VERSION,
            )
        )
        return None, version, found
    with engine.begin() as connection:
        found += database.guards(connection)
        project = whole.only_project(connection)
    if project is None:
        raise opening.missing(root)
    store = Store(
        Backing(
            engine,
            root,
            around.now_ms,
            lambda error: sqlite_file.refusal(error, opening.file_of(root)),
        ),
        tenant=whole.TENANT,
        project=project.id,
        actor=around.actor,
    )
    try:
        revision, more = store.read(lambda scope: (scope.revision, _told(scope, root)))
    except CallboardError as error:
        # What was found before is told too.
        return None, version, [*found, refused(error)]
    return revision, version, found + more


def _told(scope: Scope, root: Path) -> list[Finding]:
    unreadable = list(few(rows.rows(scope))) or list(rows.selections(scope))
    if unreadable:
        # Nothing else can be looked at that would come by them.
        return unreadable
    return [
        one
        for kind in (
            contents.clock(scope),
            contents.revisions(scope),
            contents.claims(scope),
            contents.sessions(scope),
            sources.files(scope, root),
            sources.dependencies(scope),
        )
        for one in few(kind)
    ]
