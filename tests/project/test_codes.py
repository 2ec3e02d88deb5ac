"""Every refusal and every finding of the wing is met by a test that names its code.

The codes are read from the wing's source, and what is asserted from the tests' source: a code that
is added without a test that meets it fails here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.ambient import ROOT

WING = ROOT / "src" / "callboard" / "project"
MAKERS = {"CallboardError": 0, "finding": 0}
"""What a code is given to, and in which place."""
ASSERTING = {"refused", "Step", "refuses"}


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _texts(node: ast.AST) -> set[str]:
    return {
        one.value
        for one in ast.walk(node)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }


def raised() -> dict[str, set[str]]:
    """Each code, and the modules that have it."""
    found: dict[str, set[str]] = {}
    for module in sorted(WING.rglob("*.py")):
        for call in _calls(ast.parse(module.read_text("utf-8"))):
            place = MAKERS.get(_name(call.func))
            if place is None:
                continue
            codes = _texts(call.args[place])
            # Else it is a code that is handed on, of a refusal that was made elsewhere.
            assert codes or ast.unparse(call.args[place]) in ("error.code", "code"), module
            for code in codes:
                found.setdefault(code, set()).add(str(module.relative_to(WING)))
    return found


def asserted() -> set[str]:
    """Texts in assertions of the wing's tests, and in what stands for one."""
    here = ROOT / "tests" / "project"
    surfaces = ROOT / "tests" / "surfaces"
    modules = [
        *here.rglob("*.py"),
        *(surfaces / "project").rglob("*.py"),
        *surfaces.rglob("test_project*.py"),
    ]
    found: set[str] = set()
    for module in modules:
        tree = ast.parse(module.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert):
                found |= _texts(node)
        for call in _calls(tree):
            if _name(call.func) in ASSERTING:
                for part in (*call.args, *(one.value for one in call.keywords)):
                    found |= _texts(part)
        found |= _tables(tree)
    return found


def _tables(tree: ast.Module) -> set[str]:
    """What is handed to a test by `parametrize` beside a parameter that is called `code`."""
    found: set[str] = set()
    for call in _calls(tree):
        if _name(call.func) == "parametrize" and "code" in _texts(call.args[0]) | {
            one for text in _texts(call.args[0]) for one in text.replace(",", " ").split()
        }:
            found |= _texts(call.args[1])
    return found


def test_every_code_is_met() -> None:
    wanted = raised()
    assert {"claim_held", "event_gap", "dependency_external", "source_busy"} <= wanted.keys()
    missing = {code: sorted(wanted[code]) for code in wanted.keys() - asserted()}
    assert missing == {}


def test_a_code_that_nobody_meets_would_be_noticed(tmp_path: Path) -> None:
    assert "no_such" + "_code" not in asserted()
    assert "claim_held" in asserted()
