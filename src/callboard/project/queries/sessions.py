"""Sessions and their checkpoints, and which session follows which."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import select

from callboard.project import schema
from callboard.project.records import Artifact, Checkpoint, Session
from callboard.project.unit import Scope

_texts = msgspec.json.Decoder(tuple[str, ...])
_artifacts = msgspec.json.Decoder(tuple[Artifact, ...])


def session(scope: Scope, session_id: str) -> Session | None:
    """A session by its id."""
    row = scope.find(schema.sessions, id=session_id)
    return None if row is None else _session(row)


def successor(scope: Scope, session_id: str) -> str | None:
    """The id of the session that follows one."""
    row = scope.find(schema.sessions, predecessor=session_id)
    return None if row is None else str(row.id)


def sessions(
    scope: Scope,
    *,
    state: str | None = None,
    branch: str | None = None,
    work: str | None = None,
    agent: str | None = None,
    before: int | None = None,
    limit: int | None = None,
) -> list[tuple[int, Session]]:
    """Sessions, the latest first, each with its place in that order."""
    table = schema.sessions
    query = select(table).where(scope.own(table)).order_by(table.c.position.desc())
    for column, value in (
        (table.c.state, state),
        (table.c.branch, branch),
        (table.c.work, work),
        (table.c.agent, agent),
    ):
        if value is not None:
            query = query.where(column == value)
    if before is not None:
        query = query.where(table.c.position < before)
    rows = scope.connection.execute(query.limit(limit))
    return [(row.position, _session(row)) for row in rows]


def last_checkpoint(scope: Scope, session_id: str) -> Checkpoint | None:
    """The last checkpoint of a session."""
    table = schema.checkpoints
    query = (
        select(table)
        .where(scope.own(table), table.c.session == session_id)
        .order_by(table.c.revision.desc())
        .limit(1)
    )
    row = scope.connection.execute(query).one_or_none()
    if row is None:
        return None
    return Checkpoint(
        id=row.id,
        session=row.session,
        digest=row.digest,
        next_action=row.next_action,
        open_loops=_texts.decode(row.open_loops),
        context_sha256=row.context_sha256,
        artifacts=_artifacts.decode(row.artifacts),
        agent=row.agent,
        at_ms=row.at_ms,
        revision=row.revision,
    )


def _session(row: Any) -> Session:
    return Session(
        id=row.id,
        work=row.work,
        branch=row.branch,
        agent=row.agent,
        provider=row.provider,
        model=row.model,
        state=row.state,
        predecessor=row.predecessor,
        started_at_ms=row.started_at_ms,
        ended_at_ms=row.ended_at_ms,
        outcome=row.outcome,
    )
