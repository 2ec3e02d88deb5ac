"""What a SQLite file says of itself: whose it is, of which schema, and whether it is sound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, text


def mark(connection: Connection) -> int:
    """The number by which a program marks its files; 0: none did."""
    return int(connection.exec_driver_sql("PRAGMA application_id").scalar_one())


def is_empty(connection: Connection) -> bool:
    """Whether the file has no table of any kind."""
    return not connection.exec_driver_sql("SELECT count(*) FROM sqlite_schema").scalar_one()


def version(connection: Connection) -> str | None:
    """The last step of the schema that was taken, in a file of ours."""
    found = connection.execute(text("SELECT max(version_num) FROM alembic_version")).scalar_one()
    return None if found is None else str(found)


def damage(connection: Connection, limit: int) -> list[str]:
    """What SQLite finds wrong with pages and indexes, at most `limit` remarks."""
    rows = connection.exec_driver_sql(f"PRAGMA integrity_check({limit:d})")
    return [str(line) for (line,) in rows if line != "ok"]


def loose_references(connection: Connection, limit: int) -> Sequence[Any]:
    """Rows that refer to what is not there: table, row, other table, number of the rule."""
    return connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(limit)


def triggers(connection: Connection) -> set[str]:
    """The triggers that are in place, as they were written."""
    rows = connection.exec_driver_sql("SELECT sql FROM sqlite_schema WHERE type = 'trigger'")
    return {row[0] for row in rows}
