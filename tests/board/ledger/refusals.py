"""Refusals as a table: an action, the code it must end in, what its message must show.

The cases stand in the modules beside this one; here is their form, and what the sources say of the
codes that there are.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import callboard

Action = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """An action and its refusal; `wrapped` tells that it is the cause of another one."""

    name: str
    code: str
    shows: str
    provoke: Action
    wrapped: bool


CASES: list[Case] = []


def case(code: str, shows: str, *, wrapped: bool = False) -> Callable[[Action], Action]:
    def register(provoke: Action) -> Action:
        CASES.append(Case(provoke.__name__, code, shows, provoke, wrapped))
        return provoke

    return register


# --- what the sources say -----------------------------------------------------------------------

CORE = ("protocol", "projection", "scheduling", "ledger")
_RAISERS = {"CallboardError", "refuse", "_broken"}

COMPUTED = {
    ("validate.py", "code"): {"record_invalid"},
    ("ledger/history.py", "code"): {"ledger_invalid"},
    ("ledger/history.py", "cause"): set[str](),
    ("projection/transitions/context.py", "limit.replace('_bytes', '_limit')"): {
        "evidence_limit",
        "result_limit",
    },
}
"""Where a code is computed: what it can be. `cause` stands for the codes given to `_broken`."""


def codes_in_source() -> set[str]:
    """Every code that the core can refuse with, read from its syntax."""
    root = Path(next(iter(callboard.__path__)))
    found: set[str] = set()
    for path in [root / "canonical.py", root / "validate.py", *_core_files(root)]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and _name(node.func) in _RAISERS:
                found |= _codes(node, _place(root, path))
            elif isinstance(node, ast.Call):
                found |= {
                    str(keyword.value.value)
                    for keyword in node.keywords
                    if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
                }
    return found


def _core_files(root: Path) -> Iterator[Path]:
    for package in CORE:
        yield from sorted((root / "board" / package).rglob("*.py"))


def _place(root: Path, path: Path) -> str:
    inside = (root / "board") in path.parents
    return path.relative_to(root / "board" if inside else root).as_posix()


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _codes(node: ast.Call, where: str) -> set[str]:
    first = node.args[0]
    if isinstance(first, ast.Constant):
        return {str(first.value)}
    return COMPUTED[where, ast.unparse(first)]
