"""Carries out the statements that every change needs, by the driver itself.

SQLAlchemy writes their words once for each kind of database. To hand a statement on it would need
longer than the database needs to carry it out, while all other writers wait. What comes this way
must be kept by whoever made it, and must need no conversion of values: text and whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, methodcaller
from typing import Any

from sqlalchemy import Connection, Dialect, Insert, Select, Update
from sqlalchemy.engine import Row, result_tuple
from sqlalchemy.exc import DBAPIError

Statement = Select[Any] | Insert | Update


@dataclass(frozen=True, slots=True)
class _Spelled:
    """The words of a statement, how its values are handed over, and what its rows become."""

    words: str
    arrange: Callable[[Mapping[str, object]], Any]
    row: Callable[[Sequence[Any]], Row[Any]]


_spelled: dict[tuple[Statement, str, str], _Spelled] = {}


def one(connection: Connection, statement: Select[Any], values: Mapping[str, object]) -> Any:
    """The first row found, with its columns by name, or None."""
    spelled = _spell(statement, connection.dialect)
    row = _carry_out(connection, spelled, values, _first)
    return None if row is None else spelled.row(row)


def change(connection: Connection, statement: Insert | Update, values: Mapping[str, object]) -> int:
    """Carry out a change; tells how many rows it met."""
    return int(_carry_out(connection, _spell(statement, connection.dialect), values, _count))


_first = methodcaller("fetchone")
_count = attrgetter("rowcount")


def _carry_out(
    connection: Connection,
    spelled: _Spelled,
    values: Mapping[str, object],
    found: Callable[[Any], Any],
) -> Any:
    cursor = connection.connection.cursor()
    try:
        cursor.execute(spelled.words, spelled.arrange(values))
        return found(cursor)
    except connection.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(spelled.words, None, error) from error
    finally:
        cursor.close()


def _spell(statement: Statement, dialect: Dialect) -> _Spelled:
    # Every open project has a dialect of its own; the words are those of its kind.
    kind = (statement, dialect.name, dialect.driver)
    found = _spelled.get(kind)
    if found is None:
        compiled = statement.compile(dialect=dialect)
        names = compiled.positiontup if compiled.positional else None
        columns = statement.selected_columns.keys() if isinstance(statement, Select) else []
        found = _Spelled(
            str(compiled),
            dict if names is None else lambda values: [values[name] for name in names],
            result_tuple(columns),
        )
        _spelled[kind] = found
    return found
