"""A project as a whole: its row, what it begins with, its counts, what came of a request."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, func, insert, not_, select

from callboard.canonical import encode
from callboard.project import names, schema
from callboard.project.queries.claims import not_lapsed
from callboard.project.records import MAIN, Receipt
from callboard.project.unit import Scope

_object = msgspec.json.Decoder(dict[str, Any])

TENANT = "local"
"""Whose projects a file holds; a file of one machine has one tenant."""


class Found(NamedTuple):
    """A project in a database."""

    id: str
    key: str


def only_project(connection: Connection) -> Found | None:
    """The project in a database of this schema; None: there is none yet."""
    table = schema.projects
    query = select(table.c.project, table.c.key).where(table.c.tenant == TENANT)
    row = connection.execute(query.order_by(table.c.created_at_ms).limit(1)).one_or_none()
    return None if row is None else Found(row.project, row.key)


def write_first_rows(
    connection: Connection, project: Found, *, person: str, event: str, at_ms: int
) -> None:
    """What a project begins with: its main branch, which `person` means, and its first event."""
    own = {"tenant": TENANT, "project": project.id}
    first = {"revision": 1, "last_seq": 1, "clock_ms": at_ms, "created_at_ms": at_ms}
    connection.execute(insert(schema.projects), own | first | {"key": project.key})
    branch = {"name": MAIN, "twin": names.twin(MAIN), "state": "open", "position": 1}
    connection.execute(insert(schema.branches), own | branch | {"created_at_ms": at_ms})
    connection.execute(insert(schema.selections), own | {"person": person, "branch": MAIN})
    created = {
        "id": event,
        "seq": 1,
        "type": "project.created",
        "revision": 1,
        "at_ms": at_ms,
        "body": encode({"project": project.id, "key": project.key}).decode(),
    }
    connection.execute(insert(schema.events), own | created)


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
    gone = lapsed(scope)
    if gone:
        claims = found["claims"]
        claims["active"] -= gone
        claims["expired"] = claims.get("expired", 0) + gone
        found["claims"] = {state: count for state, count in sorted(claims.items()) if count}
    return found


def lapsed(scope: Scope) -> int:
    """How many claims are past their end and were not taken over."""
    table = schema.claims
    query = select(func.count()).where(
        scope.own(table), table.c.state == "active", not_(not_lapsed(table))
    )
    return int(scope.connection.execute(query, {"now_ms": scope.now_ms}).scalar_one())


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
