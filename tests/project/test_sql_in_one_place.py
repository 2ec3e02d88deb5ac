"""SQL stands in one place: `queries`, beside the unit of work, the tables and their migrations."""

from __future__ import annotations

import ast
from pathlib import Path

import callboard.project

WING = Path(callboard.project.__file__).parent
MAY = ("queries/", "migrations/", "schema.py", "statements.py", "store.py", "unit.py")
# Where each connection gets its settings, each transaction its BEGIN, and the time is asked.
SETTING = "sqlite_file.py"
# What opens databases and speaks of their connections, and makes no statement.
CONNECTING = {"Connection", "Engine", "create_engine", "event"}


def faults(source: str) -> list[str]:
    """The names and calls of a module that make statements."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names if one.name.partition(".")[0] == "sqlalchemy"]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            package, _dot, room = node.module.partition(".")
            if package == "sqlalchemy" and room not in ("exc", "pool"):
                found += [one.name for one in node.names if one.name not in CONNECTING]
        elif isinstance(node, ast.Attribute) and node.attr == "exec_driver_sql":
            found.append(node.attr)
    return found


def test_no_other_module_makes_statements() -> None:
    found = {}
    for path in WING.rglob("*.py"):
        name = path.relative_to(WING).as_posix()
        if not name.startswith(MAY):
            found[name] = faults(path.read_text("utf-8"))
    assert {"opening.py", "doctor/database.py", "operations/work.py"} <= found.keys()
    assert set(found.pop(SETTING)) == {"exec_driver_sql"}
    assert {name: those for name, those in found.items() if those} == {}


def test_one_that_did_would_be_seen() -> None:
    assert faults("from sqlalchemy import Engine, select") == ["select"]
    assert faults("from sqlalchemy.dialects.sqlite import insert") == ["insert"]
    assert faults("import sqlalchemy as sa") == ["sqlalchemy"]
    assert faults("c.exec_driver_sql('PRAGMA x')") == ["exec_driver_sql"]
