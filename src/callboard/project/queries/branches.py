"""Work branches, and the one that is meant where none is named."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from callboard.project import schema
from callboard.project.records import Branch
from callboard.project.unit import Scope, lost


def selected_branch(scope: Scope) -> str:
    """The branch that is meant where none is named."""
    row = scope.find(schema.selections, person=scope.person)
    if row is None:
        raise lost("it does not say which branch is selected")
    return str(row.branch)


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
