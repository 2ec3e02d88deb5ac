"""Rows as the bytes they are, for whoever asks whether they can be read at all."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import LargeBinary, Table, Text, cast, select

from callboard.project.unit import Scope


def raw_texts(scope: Scope, table: Table) -> Iterator[dict[str, bytes | None]]:
    """The texts of each row of this project, by column, as bytes."""
    columns = [column for column in table.c if isinstance(column.type, Text)]
    query = select(*(cast(one, LargeBinary).label(one.name) for one in columns))
    for row in scope.connection.execute(query.where(scope.own(table))):
        yield dict(row._mapping)


def has_selection(scope: Scope, table: Table) -> bool:
    """Whether it is told which branch this person means."""
    return scope.find(table, person=scope.person) is not None
