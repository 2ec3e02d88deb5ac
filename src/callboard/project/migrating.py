"""Brings a project's database to the schema of this program, once, however many ask at a time.

Everything from the look at the version to the last step happens in one transaction. Never called
where something is only looked at.
"""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import Connection, Engine

from callboard.errors import CallboardError
from callboard.project import names, schema
from callboard.project.queries import file
from callboard.project.sqlite_file import RESTORE

STEPS = Path(__file__).resolve().parent / "migrations"


FIRST = "0001"
"""The step before which there was none."""

_STEP = re.compile(r"[0-9]{4}")


def version_of(connection: Connection) -> str | None:
    """The step that the database is at; None: it is empty. Raises `schema_newer`.

    What no step is called is `project_corrupt`; a database that holds something else is refused
    with `project_foreign`.
    """
    mark = file.mark(connection)
    if mark == 0 and file.is_empty(connection):
        return None
    if mark != schema.APPLICATION_ID:
        raise CallboardError(
            "project_foreign",
            "the file is a database of another program",
            "move it away; a project needs `.callboard/project.db` for itself",
        )
    found = file.version(connection)
    if found is None or not _STEP.fullmatch(found) or found < FIRST:
        raise CallboardError(
            "project_corrupt",
            f"the project's file says it is of schema {names.shown(found)}, which is none",
            f"something else wrote to it: {RESTORE}",
        )
    if found > schema.VERSION:
        raise newer(found)
    return found


def newer(found: str) -> CallboardError:
    """That another program is needed."""
    return CallboardError(
        "schema_newer",
        f"the project is of schema {found}, and this program knows up to {schema.VERSION}",
        "use the newer program; this one reads and changes nothing of it",
        {"found": found, "known": schema.VERSION},
    )


def migrate(engine: Engine) -> None:
    """Take the steps that are missing, if any; others who ask at the same time wait."""
    with engine.execution_options(writes=True).begin() as connection:
        if version_of(connection) == schema.VERSION:
            return
        upgrade(connection, schema.VERSION)


def upgrade(connection: Connection, to: str) -> None:
    """Take the steps up to `to` in the transaction of the caller."""
    # Only here: most commands find the schema as it should be, and Alembic takes long to load.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(STEPS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, to)
