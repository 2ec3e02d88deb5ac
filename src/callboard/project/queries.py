"""The questions that operations ask of the tables; rows become records here.

Nothing is written. Each function takes the scope of one project, and asks for rows of that project.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from sqlalchemy import Select, Table, bindparam, func, select

from callboard.project import schema
from callboard.project.records import (
    Artifact,
    Branch,
    Checkpoint,
    Claim,
    Event,
    Evidence,
    Receipt,
    Session,
    SourceFile,
    WorkItem,
)
from callboard.project.unit import Scope

_texts = msgspec.json.Decoder(tuple[str, ...])
_artifacts = msgspec.json.Decoder(tuple[Artifact, ...])
_object = msgspec.json.Decoder(dict[str, Any])


def _one(scope: Scope, query: Select[Any]) -> Any:
    return scope.connection.execute(query).one_or_none()


@cache
def _greatest(table: Table, column: str, *keys: str) -> Select[Any]:
    """The greatest value of a column, of the rows with these keys."""
    named = [table.c[name] == bindparam(name) for name in ("tenant", "project", *keys)]
    return select(func.max(table.c[column])).where(*named)


def _last(scope: Scope, table: Table, column: str, **keys: object) -> int:
    whose = {"tenant": scope.tenant, "project": scope.project}
    query = _greatest(table, column, *keys)
    return int(scope.connection.execute(query, whose | keys).scalar_one() or 0)


# --- work -------------------------------------------------------------------------------------


def work_item(scope: Scope, key: str) -> WorkItem | None:
    """A piece of work by its key."""
    row = scope.find(schema.work_items, key=key)
    return None if row is None else as_work_item(row)


def work_exists(scope: Scope, key: str) -> bool:
    """Whether the projection has the work."""
    return scope.find(schema.work_items, key=key) is not None


def work_twin(scope: Scope, twin: str) -> str | None:
    """The key of the work that would be confused with one of this twin."""
    row = scope.find(schema.work_items, twin=twin)
    return None if row is None else str(row.key)


def work_items(
    scope: Scope, *, status: str | None = None, after: int | None = None, limit: int | None = None
) -> list[tuple[int, WorkItem]]:
    """Work in the order of its files, each with its place in that order."""
    table = schema.work_items
    query = select(table).where(scope.own(table)).order_by(table.c.position)
    if status is not None:
        query = query.where(table.c.status == status)
    if after is not None:
        query = query.where(table.c.position > after)
    rows = scope.connection.execute(query.limit(limit))
    return [(row.position, as_work_item(row)) for row in rows]


def as_work_item(row: Any) -> WorkItem:
    """A row of `work_items`."""
    return WorkItem(
        key=row.key,
        title=row.title,
        status=row.status,
        goal=row.goal,
        acceptance=_texts.decode(row.acceptance),
        next_action=row.next_action,
        depends_on=_texts.decode(row.depends_on),
        workstream=row.workstream,
        owner=row.owner,
        paths=_texts.decode(row.paths),
        tags=_texts.decode(row.tags),
        priority=row.priority,
        source_file=row.source_file,
        source_sha256=row.source_sha256,
    )


def sources(scope: Scope) -> list[SourceFile]:
    """The files that were indexed, in order."""
    table = schema.sources
    rows = scope.connection.execute(
        select(table).where(scope.own(table)).order_by(table.c.position)
    )
    return [SourceFile(path=row.path, sha256=row.sha256, size_bytes=row.size_bytes) for row in rows]


def counts(scope: Scope) -> dict[str, dict[str, int]]:
    """How many there are of everything that has a status or state."""
    found: dict[str, dict[str, int]] = {}
    for name, table, column in (
        ("work", schema.work_items, schema.work_items.c.status),
        ("sessions", schema.sessions, schema.sessions.c.state),
        ("claims", schema.claims, schema.claims.c.state),
        ("branches", schema.branches, schema.branches.c.state),
    ):
        rows = scope.connection.execute(
            select(column, func.count()).where(scope.own(table)).group_by(column).order_by(column)
        )
        found[name] = {str(state): int(count) for state, count in rows}
    lapsed = len(lapsed_claims(scope))
    if lapsed:
        claims = found["claims"]
        claims["active"] -= lapsed
        claims["expired"] = claims.get("expired", 0) + lapsed
        found["claims"] = {state: count for state, count in sorted(claims.items()) if count}
    return found


def loose_dependencies(scope: Scope) -> list[tuple[str, str]]:
    """Work, and what it depends on that is in no file, in the order of the files."""
    table, item, other = schema.work_dependencies, schema.work_items, schema.work_items.alias()
    query = (
        select(table.c.work, table.c.depends_on)
        .join(item, scope.own(item) & (item.c.key == table.c.work))
        .outerjoin(other, scope.own(other) & (other.c.key == table.c.depends_on))
        .where(scope.own(table), other.c.key.is_(None))
        .order_by(item.c.position, table.c.depends_on)
    )
    return [(str(work), str(key)) for work, key in scope.connection.execute(query)]


# --- branches ---------------------------------------------------------------------------------


def selected_branch(scope: Scope) -> str:
    """The branch that is meant where none is named."""
    return str(scope.find(schema.selections, person=scope.person).branch)


def branch(scope: Scope, name: str) -> Branch | None:
    """A branch by its name."""
    row = scope.find(schema.branches, name=name)
    return None if row is None else _branch(row, selected_branch(scope))


def branch_twin(scope: Scope, twin: str) -> str | None:
    """The name of the branch that would be confused with one of this twin."""
    row = scope.find(schema.branches, twin=twin)
    return None if row is None else str(row.name)


def branches(scope: Scope) -> list[Branch]:
    """All branches, in the order of their making."""
    table = schema.branches
    selected = selected_branch(scope)
    query = select(table).where(scope.own(table)).order_by(table.c.position)
    return [_branch(row, selected) for row in scope.connection.execute(query)]


def _branch(row: Any, selected: str) -> Branch:
    return Branch(
        name=row.name,
        state=row.state,
        selected=row.name == selected,
        created_at_ms=row.created_at_ms,
        closed_at_ms=row.closed_at_ms,
    )


# --- sessions ---------------------------------------------------------------------------------


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


def next_position(scope: Scope, table: Any) -> int:
    """The place of a new row behind all others."""
    return _last(scope, table, "position") + 1


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
    )


def last_checkpoint(scope: Scope, session_id: str) -> Checkpoint | None:
    """The last checkpoint of a session."""
    table = schema.checkpoints
    query = (
        select(table)
        .where(scope.own(table), table.c.session == session_id)
        .order_by(table.c.revision.desc())
        .limit(1)
    )
    row = _one(scope, query)
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


# --- claims -----------------------------------------------------------------------------------


def claim(scope: Scope, claim_id: str) -> Claim | None:
    """A claim by its id."""
    row = scope.find(schema.claims, id=claim_id)
    return None if row is None else as_claim(row, scope.now_ms)


def claim_on(scope: Scope, work: str) -> Claim | None:
    """The claim on a piece of work that nobody ended, lapsed or not."""
    row = scope.find(schema.claims, work=work, state="active")
    return None if row is None else as_claim(row, scope.now_ms)


def claims_of(scope: Scope, session_id: str, *, open_only: bool = True) -> list[Claim]:
    """The claims of a session, the latest first; `open_only`: those that nobody ended."""
    table = schema.claims
    query = (
        select(table)
        .where(scope.own(table), table.c.session == session_id)
        .order_by(table.c.fence.desc())
    )
    if open_only:
        query = query.where(table.c.state == "active")
    return [as_claim(row, scope.now_ms) for row in scope.connection.execute(query)]


def last_fence(scope: Scope, work: str) -> int:
    """The fence of the last acquisition of a piece of work; 0: there was none."""
    return _last(scope, schema.claims, "fence", work=work)


def lapsed_claims(scope: Scope) -> list[Claim]:
    """Claims past their end that nobody took over."""
    return [found for found in open_claims(scope) if found.state == "expired"]


def open_claims(scope: Scope) -> list[Claim]:
    """Claims that nobody ended, the lapsed ones among them, by work."""
    table = schema.claims
    query = select(table).where(scope.own(table), table.c.state == "active").order_by(table.c.work)
    return [as_claim(row, scope.now_ms) for row in scope.connection.execute(query)]


def as_claim(row: Any, now_ms: int) -> Claim:
    """A row of `claims`, as it is at `now_ms`."""
    lapsed = row.expires_at_ms is not None and now_ms >= row.expires_at_ms
    return Claim(
        id=row.id,
        work=row.work,
        session=row.session,
        agent=row.agent,
        branch=row.branch,
        state="expired" if row.state == "active" and lapsed else row.state,
        fence=row.fence,
        acquired_at_ms=row.acquired_at_ms,
        expires_at_ms=row.expires_at_ms,
        released_at_ms=row.released_at_ms,
    )


# --- history ----------------------------------------------------------------------------------


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


def is_carried_out(scope: Scope, request_id: str) -> bool:
    """Whether a request of that id was carried out, whoever asked."""
    return scope.find(schema.receipts, request_id=request_id) is not None


def receipt(scope: Scope, request_id: str, actor: str) -> Receipt | None:
    """What came of a request of this actor."""
    row = scope.find(schema.receipts, request_id=request_id, actor=actor)
    if row is None:
        return None
    return Receipt(
        request_id=row.request_id,
        operation=row.operation,
        actor=row.actor,
        revision=row.revision,
        at_ms=row.at_ms,
        outcome=_object.decode(row.outcome),
    )
