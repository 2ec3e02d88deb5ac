"""Whether the database is sound as SQLite sees it, and whether its history is still guarded."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection

from callboard.project import names, schema
from callboard.project.doctor.findings import MAX_OF_A_KIND, finding
from callboard.project.queries import file
from callboard.project.records import Finding


def soundness(connection: Connection) -> Iterator[Finding]:
    """What SQLite itself says of its pages and references."""
    for line in file.damage(connection, MAX_OF_A_KIND):
        yield finding("integrity", f"the database is damaged: {names.shown(line)}")
    for table, row, parent, _number in file.loose_references(connection, MAX_OF_A_KIND):
        yield finding(
            "foreign_key",
            f"a row of {table} refers to a row of {parent} that is not there",
            subject=str(table),
            row=row,
        )


def guards(connection: Connection) -> Iterator[Finding]:
    """Whether everything that keeps the history is in place."""
    there = file.triggers(connection)
    for trigger in schema.sqlite_triggers():
        if trigger not in there:
            name = trigger.split()[2]
            yield finding(
                "guard_missing",
                f"the trigger {name} is gone, so history could be changed",
                subject=name,
            )
