"""The tables of a project, and the triggers that keep its history.

The migrations make them; a test holds both to the same. Every row names tenant and project, ids are
opaque text, times are Unix milliseconds, lists are JSON text. Nothing here opens a connection.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

VERSION = "0001"
"""The migration this program's tables come from; later ones sort after it."""

APPLICATION_ID = 0x43424450
"""Marks a SQLite file as a Callboard project."""

Whole = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

LAST_TIME = 2**53 - 1


def _table(name: str, *parts: Any, key: tuple[str, ...], rowid: bool = True) -> Table:
    """A strict table of one project's rows, with `key` unique within the project."""
    return Table(
        name,
        metadata,
        Column("tenant", Text, nullable=False),
        Column("project", Text, nullable=False),
        *parts,
        PrimaryKeyConstraint("tenant", "project", *key),
        sqlite_strict=True,
        sqlite_with_rowid=rowid,
    )


def _word(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _words(name: str) -> Column[str | None]:
    return Column(name, Text, nullable=True)


def _number(name: str) -> Column[int]:
    return Column(name, Whole, nullable=False)


def _time(name: str) -> Column[int]:
    return Column(name, Whole, nullable=False)


def _ending(name: str) -> Column[int | None]:
    return Column(name, Whole, nullable=True)


def _one_of(column: str, *values: str) -> CheckConstraint:
    return CheckConstraint(
        f"{column} IN ({', '.join(repr(value) for value in values)})", name=column
    )


def _refers(columns: tuple[str, ...], table: str, keys: tuple[str, ...]) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["tenant", "project", *columns],
        [f"{table}.tenant", f"{table}.project", *(f"{table}.{key}" for key in keys)],
    )


def _of_project() -> ForeignKeyConstraint:
    return _refers((), "projects", ())


projects = _table(
    "projects",
    _word("key"),
    _number("revision"),
    _number("last_seq"),
    # The latest time at which anything was written: for what has lapsed, time never goes back.
    _time("clock_ms"),
    _time("created_at_ms"),
    CheckConstraint("revision >= 1", name="revision"),
    CheckConstraint(f"clock_ms BETWEEN 0 AND {LAST_TIME}", name="clock_ms"),
    UniqueConstraint("tenant", "key"),
    key=(),
)

sources = _table(
    "sources",
    _word("path"),
    _word("sha256"),
    _number("size_bytes"),
    _number("position"),
    _number("indexed_revision"),
    _of_project(),
    key=("path",),
)

goals = _table(
    "goals",
    _word("key"),
    _word("twin"),
    _word("title"),
    _word("status"),
    _number("position"),
    _word("source_file"),
    _word("source_sha256"),
    UniqueConstraint("tenant", "project", "twin"),
    _of_project(),
    key=("key",),
)

work_items = _table(
    "work_items",
    _word("key"),
    _word("twin"),
    _word("title"),
    _word("status"),
    _words("goal"),
    _word("acceptance"),
    _words("next_action"),
    _word("depends_on"),
    _words("workstream"),
    _words("owner"),
    _word("paths"),
    _word("tags"),
    Column("priority", Whole, nullable=True),
    _number("position"),
    _word("source_file"),
    _word("source_sha256"),
    UniqueConstraint("tenant", "project", "twin"),
    _of_project(),
    Index(None, "tenant", "project", "position"),
    Index(None, "tenant", "project", "status"),
    key=("key",),
)

# `depends_on` again, one row an edge, for queries; the other end may be elsewhere or missing.
work_dependencies = _table(
    "work_dependencies",
    _word("work"),
    _word("depends_on"),
    _refers(("work",), "work_items", ("key",)),
    Index(None, "tenant", "project", "depends_on"),
    key=("work", "depends_on"),
)

branches = _table(
    "branches",
    _word("name"),
    _word("twin"),
    _word("state"),
    _number("position"),
    _time("created_at_ms"),
    _ending("closed_at_ms"),
    _one_of("state", "open", "closed"),
    CheckConstraint("(state = 'closed') = (closed_at_ms IS NOT NULL)", name="closed_at_ms"),
    UniqueConstraint("tenant", "project", "twin"),
    _of_project(),
    key=("name",),
)

# Which branch somebody means who names none; where nobody signs in there is one person, `self`.
selections = _table(
    "selections",
    _word("person"),
    _word("branch"),
    _refers(("branch",), "branches", ("name",)),
    key=("person",),
)

sessions = _table(
    "sessions",
    _word("id"),
    _number("position"),
    _word("work"),
    _word("branch"),
    _word("agent"),
    _words("provider"),
    _words("model"),
    _word("state"),
    _words("predecessor"),
    _time("started_at_ms"),
    _ending("ended_at_ms"),
    _words("outcome"),
    _one_of("state", "active", "interrupted", "ended", "handed_off"),
    CheckConstraint("(state = 'active') = (ended_at_ms IS NULL)", name="ended_at_ms"),
    # One successor only.
    UniqueConstraint("tenant", "project", "predecessor"),
    UniqueConstraint("tenant", "project", "position"),
    _refers(("branch",), "branches", ("name",)),
    _refers(("predecessor",), "sessions", ("id",)),
    Index(None, "tenant", "project", "state", "branch", "position"),
    Index(None, "tenant", "project", "work", "position"),
    key=("id",),
)

checkpoints = _table(
    "checkpoints",
    _word("id"),
    _word("session"),
    _word("digest"),
    _word("next_action"),
    _word("open_loops"),
    _words("context_sha256"),
    _word("artifacts"),
    _word("agent"),
    _time("at_ms"),
    _number("revision"),
    _refers(("session",), "sessions", ("id",)),
    Index(None, "tenant", "project", "session", "revision"),
    key=("id",),
)

claims = _table(
    "claims",
    _word("id"),
    _word("work"),
    _word("session"),
    _word("agent"),
    _word("branch"),
    _word("state"),
    _number("fence"),
    _time("acquired_at_ms"),
    _ending("expires_at_ms"),
    _ending("released_at_ms"),
    _one_of("state", "active", "released", "expired", "transferred"),
    CheckConstraint("fence >= 1", name="fence"),
    CheckConstraint(
        f"expires_at_ms > acquired_at_ms AND expires_at_ms <= {LAST_TIME}", name="expires_at_ms"
    ),
    CheckConstraint("(state = 'active') = (released_at_ms IS NULL)", name="released_at_ms"),
    UniqueConstraint("tenant", "project", "work", "fence"),
    _refers(("session",), "sessions", ("id",)),
    # Without the branch: a work that is held on one of them is held on all.
    Index(
        "uq_claims_active",
        "tenant",
        "project",
        "work",
        unique=True,
        sqlite_where=text("state = 'active'"),
        postgresql_where=text("state = 'active'"),
    ),
    Index(None, "tenant", "project", "session", "fence"),
    Index(None, "tenant", "project", "state"),
    key=("id",),
)

events = _table(
    "events",
    _number("seq"),
    _word("id"),
    _word("type"),
    _words("work"),
    _words("branch"),
    _words("session"),
    _number("revision"),
    _time("at_ms"),
    _word("body"),
    UniqueConstraint("tenant", "project", "id"),
    _of_project(),
    Index(None, "tenant", "project", "session", "seq"),
    Index(None, "tenant", "project", "branch", "seq"),
    Index(None, "tenant", "project", "work", "seq"),
    Index(None, "tenant", "project", "type", "seq"),
    key=("seq",),
    rowid=False,
)

evidence = _table(
    "evidence",
    _word("id"),
    _number("position"),
    _word("work"),
    _word("branch"),
    _words("session"),
    _words("agent"),
    _word("kind"),
    _word("summary"),
    _word("covers"),
    _words("ref"),
    _words("sha256"),
    _time("at_ms"),
    _number("revision"),
    UniqueConstraint("tenant", "project", "position"),
    _refers(("branch",), "branches", ("name",)),
    _refers(("session",), "sessions", ("id",)),
    Index(None, "tenant", "project", "work", "position"),
    key=("id",),
)

completions = _table(
    "completions",
    _word("id"),
    _word("work"),
    _word("branch"),
    _word("session"),
    _word("claim"),
    _number("fence"),
    # The criteria as `work_items.acceptance` had them, and JSON of what each was covered by.
    _word("criteria"),
    _word("acceptance"),
    _word("source_sha256"),
    _time("at_ms"),
    _number("revision"),
    _refers(("branch",), "branches", ("name",)),
    _refers(("session",), "sessions", ("id",)),
    _refers(("claim",), "claims", ("id",)),
    Index(None, "tenant", "project", "work", "revision"),
    key=("id",),
)

receipts = _table(
    "receipts",
    _word("request_id"),
    _word("operation"),
    _word("actor"),
    _word("fingerprint"),
    _number("revision"),
    _time("at_ms"),
    _word("outcome"),
    _of_project(),
    key=("request_id",),
    rowid=False,
)

PROTECTED = {"events": ("seq", "id"), "receipts": ("request_id",)}
"""Tables whose rows are written once, and what may come only once in each."""


def sqlite_triggers() -> tuple[str, ...]:
    """What keeps the protected tables as they are, on SQLite.

    The guard on INSERT needs no `recursive_triggers`: also a connection that has not set it cannot
    put another row in the place of one that is there.
    """
    made = []
    for table, keys in PROTECTED.items():
        for verb in ("UPDATE", "DELETE"):
            made.append(
                f"CREATE TRIGGER keep_{table}_{verb.lower()} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} are never changed'); END"
            )
        for key in keys:
            made.append(
                f"CREATE TRIGGER keep_{table}_insert_{key} BEFORE INSERT ON {table} "
                f"WHEN EXISTS (SELECT 1 FROM {table} WHERE tenant = NEW.tenant "
                f"AND project = NEW.project AND {key} = NEW.{key}) "
                f"BEGIN SELECT RAISE(ABORT, '{table} are never changed'); END"
            )
    return tuple(made)
