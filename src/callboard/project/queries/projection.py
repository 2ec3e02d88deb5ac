"""Putting what was read from the work files in the place of what was indexed before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table, delete, insert

from callboard.project import schema
from callboard.project.unit import Unit

_PLACED = (schema.work_items, schema.goals, schema.sources)


def replace_projection(unit: Unit, rows: Mapping[Table, Sequence[dict[str, Any]]]) -> None:
    """Rows of work, edges, goals and sources, in their order; what was there before is gone."""
    for table in (schema.work_dependencies, *_PLACED):
        unit.connection.execute(delete(table).where(unit.own(table)))
    own = {"tenant": unit.tenant, "project": unit.project}
    for table in (*_PLACED, schema.work_dependencies):
        there = [
            {**own, **row, **({"position": place} if table in _PLACED else {})}
            for place, row in enumerate(rows.get(table, ()), start=1)
        ]
        if there:
            unit.connection.execute(insert(table), there)
