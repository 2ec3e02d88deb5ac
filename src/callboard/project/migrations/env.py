"""What Alembic runs: the steps, on the connection and in the transaction of who called.

It opens no connection of its own when the wing calls it; pytest-alembic hands one in too.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, Engine, text

from callboard.project.schema import metadata

# Alembic would make a table that is not strict; it takes one that is there.
VERSIONS = (
    "CREATE TABLE IF NOT EXISTS alembic_version ("
    "version_num TEXT NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)) STRICT"
)


def run(connection: Connection) -> None:
    """Carry the steps out."""
    if connection.dialect.name == "sqlite":
        connection.execute(text(VERSIONS))
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()


found = context.config.attributes["connection"]
if isinstance(found, Engine):
    with found.begin() as made:
        run(made)
else:
    run(found)
