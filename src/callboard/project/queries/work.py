"""The work that the files list, as it was indexed: single items, pages, sources, loose edges."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import select

from callboard.project import schema
from callboard.project.records import SourceFile, WorkItem
from callboard.project.unit import Scope

_texts = msgspec.json.Decoder(tuple[str, ...])


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


def sources(scope: Scope) -> list[SourceFile]:
    """The files that were indexed, in order."""
    table = schema.sources
    rows = scope.connection.execute(
        select(table).where(scope.own(table)).order_by(table.c.position)
    )
    return [SourceFile(path=row.path, sha256=row.sha256, size_bytes=row.size_bytes) for row in rows]


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
