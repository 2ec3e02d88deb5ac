"""What a database defines, made comparable: exactly, but for blanks and the order of constraints.

SQLite keeps the text of each definition. Its tokens are compared, with columns and the members of
keys in their order; only the constraints of a table may stand in any order, as that means nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from pathlib import Path

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|[(),]|[^\s(),'"]+""")
_CONSTRAINTS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN")

Definition = list[str]


def definitions(file: Path) -> dict[str, Definition]:
    """Every object by its kind and name: what makes it, its columns, its constraints, its end."""
    connection = sqlite3.connect(file)
    try:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
        return {f"{kind} {name}": _defined(sql) for kind, name, sql in rows}
    finally:
        connection.close()


def digest(found: dict[str, Definition]) -> str:
    """One SHA-256 for all of it."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _defined(sql: str | None) -> Definition:
    if sql is None:
        # What stands behind a key; the key is in the table's own text.
        return []
    tokens = _TOKEN.findall(sql)
    if tokens[:2] != ["CREATE", "TABLE"]:
        return [" ".join(tokens)]
    first, last = tokens.index("("), len(tokens) - tokens[::-1].index(")") - 1
    parts = _parts(tokens[first + 1 : last])
    columns = [part for part in parts if not part.startswith(_CONSTRAINTS)]
    constraints = sorted(part for part in parts if part.startswith(_CONSTRAINTS))
    assert parts[: len(columns)] == columns
    end = sorted(" ".join(tokens[last + 1 :]).split(" , "))
    return [" ".join(tokens[:first]), *columns, *constraints, *end]


def _parts(tokens: list[str]) -> list[str]:
    """What stands between the outermost commas."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token, 0)
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [" ".join(part) for part in parts]
