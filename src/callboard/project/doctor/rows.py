"""Whether each row can be read: texts as text, and stored JSON as what it should be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from callboard.project import names, queries, schema
from callboard.project.doctor.findings import finding
from callboard.project.records import Artifact, Finding
from callboard.project.sqlite_file import UNREADABLE
from callboard.project.unit import Scope

_object = msgspec.json.Decoder(dict[str, Any])
_texts = msgspec.json.Decoder(tuple[str, ...])

_JSON: dict[tuple[str, str], msgspec.json.Decoder[Any]] = {
    ("checkpoints", "artifacts"): msgspec.json.Decoder(tuple[Artifact, ...]),
    ("checkpoints", "open_loops"): _texts,
    ("completions", "acceptance"): msgspec.json.Decoder(list[tuple[str, tuple[str, ...]]]),
    ("completions", "criteria"): _texts,
    ("events", "body"): _object,
    ("evidence", "covers"): _texts,
    ("receipts", "outcome"): _object,
    ("work_items", "acceptance"): _texts,
    ("work_items", "depends_on"): _texts,
    ("work_items", "paths"): _texts,
    ("work_items", "tags"): _texts,
}


def rows(scope: Scope) -> Iterator[Finding]:
    """Rows of any table that cannot be read."""
    for table in schema.metadata.sorted_tables:
        named = [column for column in ("id", "request_id", "key", "name") if column in table.c]
        for texts in queries.raw_texts(scope, table):
            for column, data in texts.items():
                wrong = None if data is None else _fault(table.name, column, data)
                if wrong is not None:
                    key = texts[named[0]] if named else None
                    row = None if key is None else names.shown(key.decode("utf-8", "replace"))
                    yield finding(
                        "row_unreadable",
                        f"{column} of a row of {table.name} cannot be read: {wrong}",
                        subject=table.name,
                        row=row,
                        column=column,
                    )


def _fault(table: str, column: str, data: bytes) -> str | None:
    try:
        decoder = _JSON.get((table, column))
        if decoder is None:
            data.decode()
        else:
            decoder.decode(data)
    except UNREADABLE as error:
        return names.shown(str(error))
    return None


def selections(scope: Scope) -> Iterator[Finding]:
    """Whether it is told which branch is meant, and that branch is there."""
    if not queries.has_selection(scope, schema.selections):
        yield finding(
            "selection_missing",
            "it is not told which branch is meant where none is named",
            subject="selections",
        )
