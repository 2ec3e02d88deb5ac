"""One reading or one change of a project: what operations work with inside a transaction.

It never begins, commits or undoes anything itself, and never leaves the wing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from sqlalchemy import (
    Connection,
    FromClause,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    insert,
    select,
    update,
)

from callboard.canonical import decode, encode
from callboard.errors import CallboardError
from callboard.project import names, schema, statements
from callboard.project.records import Event

MAX_BODY_BYTES = 65_536


def new_id(prefix: str) -> str:
    """An id that nobody had before: 128 random bits, such as `s_` and 32 hex digits."""
    return f"{prefix}_{secrets.token_hex(16)}"


@dataclass(slots=True)
class Scope:
    """One project within a transaction that reads.

    `now_ms` is the time that counts here: no earlier than anything that was written.
    `machine_ms` is what the database's clock says, which may be earlier.
    """

    connection: Connection
    tenant: str
    project: str
    key: str
    person: str
    revision: int
    machine_ms: int
    now_ms: int

    def own(self, table: FromClause) -> Any:
        """The condition that rows of `table` are this project's."""
        return (table.c.tenant == self.tenant) & (table.c.project == self.project)

    def find(self, table: Table, **keys: object) -> Any:
        """The one row of this project with these values, or None."""
        values: dict[str, object] = {f"by_{name}": value for name, value in keys.items()}
        return statements.one(self.connection, _choice(table, tuple(keys)), self._whose() | values)

    def _whose(self) -> dict[str, object]:
        return {"by_tenant": self.tenant, "by_project": self.project}


# Building a statement takes longer than carrying it out, so those that every change needs are kept.


def _named(table: Table, keys: tuple[str, ...]) -> list[Any]:
    return [table.c[name] == bindparam(f"by_{name}") for name in ("tenant", "project", *keys)]


@cache
def _choice(table: Table, keys: tuple[str, ...]) -> Select[Any]:
    return select(table).where(*_named(table, keys))


@cache
def _insertion(table: Table, names: tuple[str, ...]) -> Insert:
    return insert(table).values({name: bindparam(name) for name in names})


@cache
def _alteration(table: Table, keys: tuple[str, ...], changed: tuple[str, ...]) -> Update:
    values: dict[str, Any] = {name: bindparam(f"to_{name}") for name in changed}
    return update(table).where(*_named(table, keys)).values(values)


def lost(what: str) -> CallboardError:
    """That the database has not what every project has."""
    return CallboardError(
        "project_corrupt",
        f"the project's database is damaged: {what}",
        "run `callboard project doctor`, and restore the file from a copy",
    )


class Nothing(Exception):
    """That a change found nothing to do, so that nothing is written. It never leaves the wing."""


class Outside(Protocol):
    """Something that was done outside of the database, and can be undone until it is let go."""

    @property
    def file(self) -> str:
        """The file that was written, as the project names it."""

    def put_back(self) -> None:
        """Make it as it was. Raises a refusal where somebody changed it since, or it fails."""

    def close(self) -> None:
        """Let it be as it is."""


@dataclass(slots=True)
class Unit(Scope):
    """One project within the transaction that changes it; `revision` is the one being made.

    `actor` is who asks for it, as they say themselves.
    """

    seq: int
    actor: str
    events: list[Event] = field(default_factory=list)
    last: list[Callable[[], Outside]] = field(default_factory=list)
    """What is to happen outside of the database, once every row of the change is written."""

    def turn_back(self) -> None:
        """Let the change happen at the time of the database's clock, also if that is earlier.

        No earlier than the first millisecond, as what ends then began before it.
        """
        self.now_ms = max(self.machine_ms, 1)

    def add(self, table: Table, **values: object) -> None:
        """Insert a row of this project."""
        row = {"tenant": self.tenant, "project": self.project, **values}
        statements.change(self.connection, _insertion(table, tuple(row)), row)

    def change(self, table: Table, keys: Mapping[str, object], **values: object) -> int:
        """Change the rows of this project with these keys; tells how many there were."""
        named: dict[str, object] = {f"by_{name}": value for name, value in keys.items()}
        named |= {f"to_{name}": value for name, value in values.items()}
        alteration = _alteration(table, tuple(keys), tuple(values))
        return statements.change(self.connection, alteration, self._whose() | named)

    def event(
        self,
        type: str,
        body: Mapping[str, object],
        *,
        work: str | None = None,
        branch: str | None = None,
        session: str | None = None,
        agent: str | None = None,
    ) -> Event:
        """Append what an operation tells, at this revision.

        `agent`: whose doing it is where nobody else declared it to be theirs. Who did is kept as
        `by` in the body.
        """
        if self.actor not in (names.LOCAL, agent):
            body = {**body, "by": self.actor}
        return self.observation(type, body, work=work, branch=branch, session=session)

    def observation(
        self,
        type: str,
        body: Mapping[str, object],
        *,
        work: str | None = None,
        branch: str | None = None,
        session: str | None = None,
    ) -> Event:
        """Append an event whose body, a JSON object of at most 64 KiB, stays just as it is."""
        data = encode(body)
        if len(data) > MAX_BODY_BYTES:
            raise CallboardError(
                "body_limit",
                f"an event's body has {len(data)} bytes, more than {MAX_BODY_BYTES}",
                "keep long texts in files, and name file and digest",
                {"bytes": len(data), "limit_bytes": MAX_BODY_BYTES},
            )
        self.seq += 1
        values: dict[str, Any] = {
            "id": new_id("e"),
            "seq": self.seq,
            "type": type,
            "work": work,
            "branch": branch,
            "session": session,
            "revision": self.revision,
            "at_ms": self.now_ms,
        }
        self.add(schema.events, **values, body=data.decode())
        event = Event(**values, body=decode(data))
        self.events.append(event)
        return event
