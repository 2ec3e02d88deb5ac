"""What readiness asks of the tables: work, completions and claims by the list.

It is asked of ten thousand pieces of work at a time, so each statement is built once, and given
its values when it is carried out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from sqlalchemy import FromClause, Row, Select, bindparam, exists, func, not_, select

from callboard.project import schema
from callboard.project.queries.claims import as_claim, not_lapsed
from callboard.project.queries.work import as_work_item
from callboard.project.records import Claim, WorkItem
from callboard.project.unit import Scope

_AT_ONCE = 500

_item = schema.work_items
_other = schema.work_items.alias("other")
_edge = schema.work_dependencies.alias("edge")
_claim = schema.claims
_done = schema.completions.alias("done")


def work_by_keys(scope: Scope, keys: Iterable[str]) -> dict[str, WorkItem]:
    """Those of the keys that the projection has."""
    return {row.key: as_work_item(row) for row in _in_parts(scope, _items_of(), keys)}


def open_work(scope: Scope, closed: Iterable[str]) -> list[Row[Any]]:
    """Key, status and dependencies of all work whose status is none of `closed`."""
    values = _values(scope, closed=list(closed))
    return list(scope.connection.execute(_open(), values))


def completed(scope: Scope, branch: str, keys: Iterable[str]) -> set[str]:
    """Those of the keys completed on a branch under the very criteria that they have now."""
    rows = _in_parts(scope, _completed_of(), keys, branch=branch)
    return {row.key for row in rows}


def all_completed(scope: Scope, branch: str) -> set[str]:
    """As `completed`, of all work."""
    values = _values(scope, branch=branch)
    return set(scope.connection.execute(_all_completed(), values).scalars())


def completed_count(scope: Scope, branch: str) -> int:
    """How many there are of them."""
    return int(
        scope.connection.execute(_count_completed(), _values(scope, branch=branch)).scalar_one()
    )


def claims_on(scope: Scope, keys: Iterable[str]) -> dict[str, Claim]:
    """The claims on these that nobody ended, lapsed or not, by work."""
    rows = _in_parts(scope, _claims_of(), keys)
    return {row.work: as_claim(row, scope.now_ms) for row in rows}


def likely_ready(
    scope: Scope, branch: str, statuses: Iterable[str], met: str, *, start: int, limit: int
) -> list[str]:
    """The keys of work that may be ready, the most urgent first; `limit` of them from `start` on.

    Everything that is ready is among them: left out is only what is closed, completed or claimed,
    or waits for other work of the files. `met` is the status of work that is done.
    """
    values = _values(
        scope,
        branch=branch,
        statuses=list(statuses),
        met=met,
        now_ms=scope.now_ms,
        start=start,
        size=limit,
    )
    return list(scope.connection.execute(_likely_ready(), values).scalars())


# --- the statements -----------------------------------------------------------------------------


def _own(table: FromClause) -> Any:
    return (table.c.tenant == bindparam("tenant")) & (table.c.project == bindparam("project"))


def _keys() -> Any:
    return bindparam("keys", expanding=True)


@cache
def _items_of() -> Select[Any]:
    return select(_item).where(_own(_item), _item.c.key.in_(_keys()))


@cache
def _open() -> Select[Any]:
    closed: Any = bindparam("closed", expanding=True)
    columns = (_item.c.key, _item.c.status, _item.c.depends_on)
    return select(*columns).where(_own(_item), _item.c.status.not_in(closed))


@cache
def _completed_of() -> Select[Any]:
    return _all_completed().where(_item.c.key.in_(_keys()))


@cache
def _all_completed() -> Select[Any]:
    return select(_item.c.key).where(_own(_item), _is_completed(_item))


@cache
def _count_completed() -> Select[Any]:
    # From the completions on, of which there are fewer than of the work.
    return (
        select(func.count(_item.c.key.distinct()))
        .select_from(_done)
        .join(_item, _own(_item) & (_item.c.key == _done.c.work))
        .where(
            _own(_done),
            _done.c.branch == bindparam("branch"),
            _done.c.criteria == _item.c.acceptance,
        )
    )


@cache
def _claims_of() -> Select[Any]:
    return select(_claim).where(
        _own(_claim), _claim.c.work.in_(_keys()), _claim.c.state == "active"
    )


def _is_completed(item: FromClause) -> Any:
    return exists().where(
        _own(_done),
        _done.c.work == item.c.key,
        _done.c.branch == bindparam("branch"),
        _done.c.criteria == item.c.acceptance,
    )


@cache
def _likely_ready() -> Select[Any]:
    claimed = select(_claim.c.work).where(
        _own(_claim),
        _claim.c.state == "active",
        not_lapsed(_claim),
    )
    waits = select(_edge.c.work).where(
        _own(_edge),
        _own(_other),
        _other.c.key == _edge.c.depends_on,
        _other.c.status != bindparam("met"),
        not_(_is_completed(_other)),
    )
    return (
        select(_item.c.key)
        .where(
            _own(_item),
            _item.c.status.in_(bindparam("statuses", expanding=True)),
            _item.c.key.not_in(waits),
            _item.c.key.not_in(claimed),
            not_(_is_completed(_item)),
        )
        .order_by(_item.c.priority.is_(None), _item.c.priority, _item.c.position)
        .offset(bindparam("start"))
        .limit(bindparam("size"))
    )


def _values(scope: Scope, **more: object) -> dict[str, object]:
    return {"tenant": scope.tenant, "project": scope.project, **more}


def _in_parts(
    scope: Scope, query: Select[Any], keys: Iterable[str], **more: object
) -> Iterator[Row[Any]]:
    """The rows for the keys, asked for in lists that a statement can take."""
    rest = list(dict.fromkeys(keys))
    for start in range(0, len(rest), _AT_ONCE):
        values = _values(scope, keys=rest[start : start + _AT_ONCE], **more)
        yield from scope.connection.execute(query, values)
