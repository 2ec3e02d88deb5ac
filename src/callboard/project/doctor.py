"""The doctor: looks at a project that may be ill, and changes nothing.

It works on a copy in memory, so that nobody has to wait for it. It migrates nothing, and reads
nothing of what a newer program wrote. A repair is an operation like any other.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from callboard.errors import CallboardError
from callboard.project import migrating, mounts, names, opening, queries, schema, sqlite_file
from callboard.project.opening import Surroundings
from callboard.project.records import Diagnosis, Finding, Severity
from callboard.project.source.fields import is_external
from callboard.project.source.nodes import MAX_FILE_BYTES
from callboard.project.source.place import Place
from callboard.project.store import Backing, Store
from callboard.project.unit import Scope

MAX_OF_A_KIND = 50


def diagnose(path: str | Path, around: Surroundings) -> Diagnosis:
    """What there is to say about the project at `path`. Raises `project_missing`."""
    root = opening.root_of(path)
    file = opening.file_of(root)
    found = list(_place(file, around))
    revision, version = None, None
    if not any(one.severity == "error" for one in found):
        if not sqlite_file.check_file(file):
            raise opening.missing(root)
        try:
            found += _modes(file)
            revision, version, more = _inside(root, file, around)
            found += more
        except CallboardError as error:
            found.append(_refused(error))
        except OSError as error:
            found.append(_refused(sqlite_file.unreadable(file, error)))
    healthy = not any(one.severity == "error" for one in found)
    return Diagnosis(
        project_revision=revision,
        schema_version=version,
        healthy=healthy,
        findings=tuple(found),
    )


def _finding(
    code: str,
    severity: Severity,
    subject: str | None,
    message: str,
    hint: str,
    **details: object,
) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        subject=subject,
        message=message,
        hint=hint,
        details=dict(details),
    )


def _refused(error: CallboardError) -> Finding:
    return _finding(error.code, "error", None, error.message, error.hint, **error.details)


# --- the file ---------------------------------------------------------------------------------


def _place(file: Path, around: Surroundings) -> Iterator[Finding]:
    try:
        mounts.check(file, around.mounts)
    except CallboardError as error:
        yield _refused(error)


def _modes(file: Path) -> Iterator[Finding]:
    try:
        keeps_wal = sqlite_file.keeps_wal(file)
    except sqlite3.Error:
        # Whatever it is that cannot be read, the look inside tells it.
        keeps_wal = True
    if not keeps_wal:
        yield _finding(
            "journal_mode",
            "warning",
            file.name,
            "the database keeps no write-ahead log",
            "open it for writing once; that switches it back",
        )
    for path, allowed in ((file, 0o600), (file.parent, 0o700)):
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if mode & ~allowed & 0o077:
            yield _finding(
                "file_mode",
                "info",
                path.name,
                f"other users may look into {str(path)!r} (mode {mode:04o})",
                f"`chmod {allowed:o}` it, unless that is meant",
                mode=f"{mode:04o}",
            )


# --- the database -----------------------------------------------------------------------------


def _inside(
    root: Path, file: Path, around: Surroundings
) -> tuple[int | None, str | None, list[Finding]]:
    try:
        engine = sqlite_file.snapshot_of(file, busy_ms=around.busy_ms)
        try:
            return _looked(engine, root, around)
        finally:
            engine.dispose()
    except DBAPIError as error:
        raise sqlite_file.refusal(error, file) from error


def _looked(
    engine: Engine, root: Path, around: Surroundings
) -> tuple[int | None, str | None, list[Finding]]:
    with engine.begin() as connection:
        version = migrating.version_of(connection)
        found = list(_soundness(connection))
    if version != schema.VERSION:
        found.append(
            _finding(
                "schema_older",
                "warning",
                None,
                f"the database is of schema {version}, this program's is {schema.VERSION}",
                "open it once for writing; that brings it up to date",
                found=version,
                known=schema.VERSION,
            )
        )
        return None, version, found
    with engine.begin() as connection:
        found += _guards(connection)
        project = opening.only_project(connection)
    if project is None:
        raise opening.missing(root)
    store = Store(
        Backing(
            engine,
            root,
            around.now_ms,
            lambda error: sqlite_file.refusal(error, opening.file_of(root)),
        ),
        tenant=opening.TENANT,
        project=project.id,
        actor=around.actor,
    )
    revision, more = store.read(lambda scope: (scope.revision, list(_contents(scope, root))))
    return revision, version, found + more


def _soundness(connection: Connection) -> Iterator[Finding]:
    """What SQLite itself says of its pages and references."""
    for (line,) in connection.exec_driver_sql(f"PRAGMA integrity_check({MAX_OF_A_KIND})"):
        if line != "ok":
            yield _finding(
                "integrity",
                "error",
                None,
                f"the database is damaged: {names.shown(line)}",
                "restore the file from a copy",
            )
    rows = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(MAX_OF_A_KIND)
    for table, row, parent, _number in rows:
        yield _finding(
            "foreign_key",
            "error",
            str(table),
            f"a row of {table} refers to a row of {parent} that is not there",
            "restore the file from a copy; something else than this program wrote to it",
            row=row,
        )


def _guards(connection: Connection) -> Iterator[Finding]:
    """Whether everything that keeps the history is in place."""
    rows = connection.exec_driver_sql("SELECT sql FROM sqlite_schema WHERE type = 'trigger'")
    there = {row[0] for row in rows}
    for trigger in schema.sqlite_triggers():
        if trigger not in there:
            name = trigger.split()[2]
            yield _finding(
                "guard_missing",
                "error",
                name,
                f"the trigger {name} is gone, so history could be changed",
                "restore the file from a copy; something else than this program wrote to it",
            )


def _contents(scope: Scope, root: Path) -> Iterator[Finding]:
    for kind in (
        _clock(scope),
        _revisions(scope),
        _claims(scope),
        _sessions(scope),
        _sources(scope, root),
        _dependencies(scope),
    ):
        yield from _some(kind)


def _some(findings: Iterator[Finding]) -> Iterator[Finding]:
    """The first of a kind, and how many more there are."""
    more = 0
    last: Finding | None = None
    for count, one in enumerate(findings):
        if count < MAX_OF_A_KIND:
            yield one
        else:
            more, last = more + 1, one
    if last is not None:
        yield _finding(
            "more_findings",
            last.severity,
            None,
            f"{more} more like the last one",
            "see to the first ones, then ask again",
            of=last.code,
            more=more,
        )


def _clock(scope: Scope) -> Iterator[Finding]:
    behind = scope.now_ms - scope.machine_ms
    if behind > 0:
        yield _finding(
            "clock_behind",
            "warning",
            None,
            f"the clock is {behind} ms behind the last change; until it has caught up, time "
            "stands still here and no claim lapses",
            "set the machine's clock right; if it is right, and was wrong before: "
            f"`callboard project doctor repair clock --expected-revision {scope.revision} "
            "--reason TEXT`",
            behind_ms=behind,
        )


def _revisions(scope: Scope) -> Iterator[Finding]:
    """Each revision has its events, and nothing is beyond the last."""
    table = schema.events
    query = select(
        func.count(table.c.revision.distinct()),
        func.max(table.c.revision),
        func.count(),
        func.max(table.c.seq),
    ).where(scope.own(table))
    revisions, last, count, seq = scope.connection.execute(query).one()
    if revisions != scope.revision or last != scope.revision:
        yield _finding(
            "revision_gap",
            "error",
            None,
            f"the project is at revision {scope.revision}, and its history has {revisions} "
            f"revisions up to {last}",
            "restore the file from a copy; something else than this program wrote to it",
            revision=scope.revision,
            revisions=revisions,
            last=last,
        )
    if count != seq:
        yield _finding(
            "event_gap",
            "error",
            None,
            f"the history has {count} events, and the last has the number {seq}",
            "restore the file from a copy; something else than this program wrote to it",
            events=count,
            last=seq,
        )


def _claims(scope: Scope) -> Iterator[Finding]:
    for claim in queries.open_claims(scope):
        session = queries.session(scope, claim.session)
        if claim.state == "expired":
            yield _finding(
                "claim_expired",
                "warning",
                claim.id,
                f"the claim on {names.shown(claim.work)} lapsed at {claim.expires_at_ms}",
                f"acquire the work, or `callboard project doctor repair expire-claim {claim.id}`",
                work=claim.work,
                session=claim.session,
                expires_at_ms=claim.expires_at_ms,
            )
        if session is None or session.state != "active":
            yield _finding(
                "claim_orphaned",
                "error",
                claim.id,
                f"the claim on {names.shown(claim.work)} is of a session that is over",
                "something else than this program wrote to the file",
                work=claim.work,
                session=claim.session,
            )


def _sessions(scope: Scope) -> Iterator[Finding]:
    """Sessions that nobody ended, and that hold nothing."""
    holding = {claim.session for claim in queries.open_claims(scope) if claim.state == "active"}
    for _place, session in queries.sessions(scope, state="active"):
        if session.id not in holding:
            yield _finding(
                "session_open",
                "info",
                session.id,
                f"the session of {names.shown(session.agent)} at {names.shown(session.work)} has "
                "no end and holds no claim",
                "end it, or resume it",
                work=session.work,
                agent=session.agent,
                branch=session.branch,
            )


def _sources(scope: Scope, root: Path) -> Iterator[Finding]:
    for source in queries.sources(scope):
        now = _sha256_of(root, source.path)
        if now != source.sha256:
            yield _finding(
                "source_changed",
                "warning",
                source.path,
                f"the file {names.shown(source.path)} "
                + ("cannot be read" if now is None else "changed since it was indexed"),
                "run `callboard project source index`",
                indexed_sha256=source.sha256,
                sha256=now,
            )


def _sha256_of(root: Path, path: str) -> str | None:
    try:
        return Place(root).read(path, MAX_FILE_BYTES).sha256
    except CallboardError:
        return None


def _dependencies(scope: Scope) -> Iterator[Finding]:
    """Edges that lead out of what was indexed; nobody takes them away."""
    for work, other in queries.loose_dependencies(scope):
        external = is_external(other)
        yield _finding(
            "dependency_external" if external else "dependency_unknown",
            "info" if external else "warning",
            work,
            f"{names.shown(work)} depends on {names.shown(other)}, which "
            + ("is elsewhere and cannot be verified here" if external else "no file has"),
            "it is kept as it is" if external else "correct the file, or add the work",
            depends_on=other,
        )
