"""Claims as they are at the moment of asking, and the rule of when one has lapsed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import FromClause, bindparam, literal_column, or_, select

from callboard.project import schema, statements
from callboard.project.queries.places import last
from callboard.project.records import Claim
from callboard.project.unit import Scope

# --- the rule: past its end, the end itself counted -----------------------------------------------


def has_lapsed(expires_at_ms: int | None, now_ms: int) -> bool:
    """Whether the end of a claim has come; one without an end never lapses."""
    return expires_at_ms is not None and now_ms >= expires_at_ms


def not_lapsed(claims: FromClause) -> Any:
    """The opposite of `has_lapsed` as a condition on rows, at the time of the value `now_ms`."""
    end = claims.c.expires_at_ms
    return or_(end.is_(None), end > bindparam("now_ms"))


# --- the questions ------------------------------------------------------------------------------


def claim(scope: Scope, claim_id: str) -> Claim | None:
    """A claim by its id."""
    row = scope.find(schema.claims, id=claim_id)
    return None if row is None else as_claim(row, scope.now_ms)


_ACTIVE_CLAIM = select(schema.claims).where(
    *(schema.claims.c[name] == bindparam(name) for name in ("tenant", "project", "work")),
    # Not as a value: for that one SQLite would look for the way anew each time it is given, since
    # the index has active claims only.
    schema.claims.c.state == literal_column("'active'"),
)


def claim_on(scope: Scope, work: str) -> Claim | None:
    """The claim on a piece of work that nobody ended, lapsed or not."""
    whose = {"tenant": scope.tenant, "project": scope.project, "work": work}
    row = statements.one(scope.connection, _ACTIVE_CLAIM, whose)
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
    return last(scope, schema.claims, "fence", work=work)


def open_claims(
    scope: Scope, *, sessions: Sequence[str] | None = None, limit: int | None = None
) -> list[Claim]:
    """Claims that nobody ended, lapsed ones among them, by work; of these sessions, or of all."""
    table = schema.claims
    query = select(table).where(scope.own(table), table.c.state == "active").order_by(table.c.work)
    if sessions is not None:
        query = query.where(table.c.session.in_(sessions))
    return [as_claim(row, scope.now_ms) for row in scope.connection.execute(query.limit(limit))]


def as_claim(row: Any, now_ms: int) -> Claim:
    """A row of `claims`, as it is at `now_ms`."""
    lapsed = row.state == "active" and has_lapsed(row.expires_at_ms, now_ms)
    return Claim(
        id=row.id,
        work=row.work,
        session=row.session,
        agent=row.agent,
        branch=row.branch,
        state="expired" if lapsed else row.state,
        fence=row.fence,
        acquired_at_ms=row.acquired_at_ms,
        expires_at_ms=row.expires_at_ms,
        released_at_ms=row.released_at_ms,
    )
