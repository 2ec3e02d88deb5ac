"""Places in an order: the greatest there is, and the one behind it."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Select, Table, bindparam, func, select

from callboard.project import statements
from callboard.project.unit import Scope


@cache
def _greatest(table: Table, column: str, *keys: str) -> Select[Any]:
    """The greatest value of a column, of the rows with these keys."""
    named = [table.c[name] == bindparam(name) for name in ("tenant", "project", *keys)]
    return select(func.max(table.c[column]).label("greatest")).where(*named)


def last(scope: Scope, table: Table, column: str, **keys: object) -> int:
    """The greatest value of a column, of the rows with these values; 0: there are none."""
    whose = {"tenant": scope.tenant, "project": scope.project}
    query = _greatest(table, column, *keys)
    return int(statements.one(scope.connection, query, whose | keys).greatest or 0)


def next_position(scope: Scope, table: Any) -> int:
    """The place of a new row behind all others."""
    return last(scope, table, "position") + 1
