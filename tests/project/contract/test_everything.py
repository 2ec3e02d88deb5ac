"""The contract asks for every operation of the table, and gives each of its parameters.

Read from the texts of the contract's own modules, so it holds also where only some of them run.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

from callboard.project import project as project_module
from callboard.project.groups.group import Group
from callboard.project.operation import Operation
from callboard.project.operations_table import OPERATIONS
from callboard.project.project import Project
from tests.project import scenarios

HERE = Path(__file__).resolve().parent
MODULES = (*sorted(HERE.glob("test_*.py")), Path(scenarios.__file__))
# Given to every change by `test_changes`, with the help of the scenarios.
OF_ALL = {"expected_revision", "request_id"}
# What the table calls so is another one of the façade's calls.
SAME = {"diagnose": "doctor.check"}


def _chain(node: ast.AST) -> str:
    """`project.sessions.start` of such an expression; what comes before a name is left out."""
    if isinstance(node, ast.Attribute):
        before = _chain(node.value)
        return f"{before}.{node.attr}" if before else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _calls() -> list[tuple[str, int, set[str]]]:
    """Every call in the contract: what is called, how many places and which names are given."""
    found = []
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            names = {one.arg for one in node.keywords if one.arg is not None}
            called, places = _chain(node.func), len(node.args)
            if called == "Call":
                # One of a scenario: the method, its arguments, and what is named.
                called = f".{ast.literal_eval(node.args[0])}"
                given = node.args[1:]
                places = len(given[0].elts) if given and isinstance(given[0], ast.Tuple) else 0
                if len(given) > 1 and isinstance(given[1], ast.Dict):
                    names |= {str(ast.literal_eval(key)) for key in given[1].keys if key}
            found.append((called, places, names))
    return found


CALLS = _calls()


def _given(operation: Operation) -> set[str] | None:
    """The parameters of an operation that some call gives; None: nobody calls it."""
    call = operation.call
    places: list[str] | None = None
    found: set[str] | None = None
    for called, count, names in CALLS:
        if called.endswith((f".{call}", f".{SAME.get(call, call)}")):
            places = _places(call) if places is None else places
            found = (found or set()) | names | set(places[:count])
    return found


def _places(call: str) -> list[str]:
    act: Any = Project
    if "." in call:
        group, _, call = call.partition(".")
        act = _groups()[group]
    own = list(inspect.signature(getattr(act, call)).parameters)
    return [one for one in own if one not in ("self", "path")]


def _groups() -> dict[str, type]:
    """The groups by the names that a project has for them, so that a new one is there by itself."""
    known = vars(project_module).values()
    kinds = [kind for kind in known if isinstance(kind, type) and issubclass(kind, Group)]
    return {kind.__module__.rpartition(".")[2]: kind for kind in kinds}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.tool)
def test_the_contract_asks_for_it(operation: Operation) -> None:
    given = _given(operation)
    assert given is not None, f"no test of the contract calls {operation.call}"
    facade = [one for one in operation.parameters if not one.is_actor_alone]
    wanted = {one.keyword or one.name for one in facade} - OF_ALL
    assert wanted - given == set(), operation.call


def test_an_operation_that_nobody_calls_would_be_noticed() -> None:
    assert _given(Operation("work", "forget", "Forget it.", "work.forget")) is None
    (append,) = [one for one in OPERATIONS if one.call == "events.append"]
    given = _given(append)
    assert given is not None
    assert "colour" not in given


def test_the_contract_looks_into_no_store() -> None:
    """No table, no statement and no file but the work files."""
    beyond = {"raw", "rows", "everything", "file", "sqlite3", "sqlalchemy", "execute", "_key"}
    for module in MODULES:
        tree = ast.parse(module.read_text("utf-8"))
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                used |= {one.name.partition(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                used.add((node.module or "").partition(".")[0])
        assert used & beyond == set(), module
