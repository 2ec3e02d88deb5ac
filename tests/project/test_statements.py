"""Statements that the driver carries out: their rows, their counts, what their errors become."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    create_engine,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError

from callboard.project import statements

tool = Table("tool", MetaData(), Column("key", Text, primary_key=True), Column("count", Integer))
ADD = insert(tool).values(key=bindparam("key"), count=bindparam("count"))
FIND = select(tool).where(tool.c.key == bindparam("by_key"))
COUNT = update(tool).where(tool.c.count < bindparam("below")).values(count=bindparam("to_count"))


def database() -> Engine:
    return create_engine("sqlite://", creator=lambda: sqlite3.connect(":memory:"))


@pytest.fixture
def connection() -> Iterator[Connection]:
    with database().begin() as found:
        tool.create(found)
        yield found


def add(connection: Connection, key: str, count: int) -> int:
    # The order in which values are named means nothing.
    return statements.change(connection, ADD, {"count": count, "key": key})


def test_a_row_has_its_columns_by_name(connection: Connection) -> None:
    add(connection, "saw", 3)
    row = statements.one(connection, FIND, {"by_key": "saw"})
    assert (row.key, row.count) == ("saw", 3)
    assert statements.one(connection, FIND, {"by_key": "axe"}) is None


def test_a_change_tells_how_many_rows_it_met(connection: Connection) -> None:
    assert [add(connection, key, count) for key, count in (("a", 1), ("b", 2), ("c", 9))] == [1] * 3
    assert statements.change(connection, COUNT, {"below": 5, "to_count": 7}) == 2
    assert statements.change(connection, COUNT, {"below": 5, "to_count": 7}) == 0
    assert sorted(connection.execute(select(tool.c.count)).scalars()) == [7, 7, 9]


def test_an_error_of_the_driver_comes_as_sqlalchemy_tells_it(connection: Connection) -> None:
    add(connection, "saw", 3)
    with pytest.raises(DBAPIError) as found:
        add(connection, "saw", 4)
    assert isinstance(found.value.orig, sqlite3.IntegrityError)
    assert "saw" not in str(found.value)


def test_words_are_kept_for_all_databases_of_a_kind(connection: Connection) -> None:
    add(connection, "saw", 3)
    statements.one(connection, FIND, {"by_key": "saw"})
    before = len(statements._spelled)
    with database().begin() as other:
        tool.create(other)
        add(other, "axe", 1)
        assert statements.one(other, FIND, {"by_key": "axe"}).count == 1
        assert statements.one(other, FIND, {"by_key": "saw"}) is None
    assert len(statements._spelled) == before


def test_nothing_is_kept_open(connection: Connection) -> None:
    add(connection, "saw", 3)
    statements.one(connection, FIND, {"by_key": "saw"})
    # A statement that is still open would keep the table from being dropped.
    tool.drop(connection)
