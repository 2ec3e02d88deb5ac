"""What was told and shown: events, evidence, and how whole the history is."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from sqlalchemy import func, select

from callboard.project import schema
from callboard.project.records import Event, Evidence
from callboard.project.unit import Scope

_texts = msgspec.json.Decoder(tuple[str, ...])
_object = msgspec.json.Decoder(dict[str, Any])


class History(NamedTuple):
    """How much history there is: revisions and events, and the last number of each.

    `written` is the number that the project itself has for its last event.
    """

    revisions: int
    last_revision: int | None
    events: int
    last_seq: int | None
    written: int


def history(scope: Scope) -> History:
    """The extent of the history; a sound one has no gaps."""
    table = schema.events
    query = select(
        func.count(table.c.revision.distinct()),
        func.max(table.c.revision),
        func.count(),
        func.max(table.c.seq),
    ).where(scope.own(table))
    revisions, last_revision, count, last_seq = scope.connection.execute(query).one()
    written = int(scope.find(schema.projects).last_seq)
    return History(revisions, last_revision, count, last_seq, written)


def events(
    scope: Scope,
    *,
    session: str | None = None,
    branch: str | None = None,
    work: str | None = None,
    type: str | None = None,
    after: int | None = None,
    limit: int,
) -> list[Event]:
    """Events that fit all filters exactly, the oldest first."""
    table = schema.events
    query = select(table).where(scope.own(table)).order_by(table.c.seq).limit(limit)
    for column, value in (
        (table.c.session, session),
        (table.c.branch, branch),
        (table.c.work, work),
        (table.c.type, type),
    ):
        if value is not None:
            query = query.where(column == value)
    if after is not None:
        query = query.where(table.c.seq > after)
    return [as_event(row) for row in scope.connection.execute(query)]


def as_event(row: Any) -> Event:
    """A row of `events`."""
    return Event(
        id=row.id,
        seq=row.seq,
        type=row.type,
        work=row.work,
        branch=row.branch,
        session=row.session,
        revision=row.revision,
        at_ms=row.at_ms,
        body=_object.decode(row.body),
    )


def evidence(
    scope: Scope,
    branch: str,
    *,
    work: str | None = None,
    current_only: bool = False,
    after: int | None = None,
    limit: int | None = None,
) -> list[tuple[int, Evidence]]:
    """Evidence, the oldest first, as it counts on `branch`, each with its place in that order."""
    table = schema.evidence
    query = select(table).where(scope.own(table)).order_by(table.c.position)
    if work is not None:
        query = query.where(table.c.work == work)
    if current_only:
        query = query.where(table.c.branch == branch)
    if after is not None:
        query = query.where(table.c.position > after)
    rows = scope.connection.execute(query.limit(limit))
    return [(row.position, _evidence(row, branch)) for row in rows]


def _evidence(row: Any, branch: str) -> Evidence:
    return Evidence(
        id=row.id,
        work=row.work,
        branch=row.branch,
        session=row.session,
        agent=row.agent,
        kind=row.kind,
        summary=row.summary,
        covers=_texts.decode(row.covers),
        ref=row.ref,
        sha256=row.sha256,
        at_ms=row.at_ms,
        revision=row.revision,
        currency="current" if row.branch == branch else "historical",
    )
