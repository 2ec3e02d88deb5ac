"""What hints say to type, as calls of tools: who has tools has no shell to type it in.

Only the commands of a project's operations, as hints quote them, are spelled anew; all else stays.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from callboard.project.operation import Operation, Parameter
from callboard.project.operations_table import OPERATIONS
from callboard.surfaces.mcp.answers import Document

_COMMAND = re.compile(r"`callboard project ([^`]+)`")
_BY_WORDS = {one.words: one for one in OPERATIONS}
_MOST_WORDS = max(map(len, _BY_WORDS))


def in_tools(hint: str) -> str:
    """The hint with its commands as calls: `project_claim_show {"work": "A"}`."""
    return _COMMAND.sub(_call, hint)


def as_tools(document: Document) -> Document:
    """An answer with its remarks, and the hints of its findings, spelled so."""
    found = dict(document)
    if isinstance(found.get("remarks"), list):
        found["remarks"] = [in_tools(one) for one in found["remarks"]]
    if isinstance(found.get("findings"), list):
        found["findings"] = [{**one, "hint": in_tools(one["hint"])} for one in found["findings"]]
    return found


def _call(found: re.Match[str]) -> str:
    try:
        words = shlex.split(found[1])
        for depth in range(min(_MOST_WORDS, len(words)), 0, -1):
            operation = _BY_WORDS.get(tuple(words[:depth]))
            if operation is not None:
                return f"`{_spelled(operation, words[depth:])}`"
    except (ValueError, IndexError):
        # A name with a back quote in it cut the command in two.
        pass
    return found[0]


def _spelled(operation: Operation, words: list[str]) -> str:
    arguments = _arguments(operation, words)
    return operation.tool + (f" {json.dumps(arguments, ensure_ascii=False)}" if arguments else "")


def _arguments(operation: Operation, words: list[str]) -> dict[str, Any]:
    options = {one.option: one for one in operation.parameters if not one.is_argument}
    places = [one for one in operation.parameters if one.is_argument]
    found: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        one = options.get(word)
        if one is None:
            found[places.pop(0).name] = word
        elif one.kind in ("flag", "off"):
            found[one.name] = one.kind == "flag"
        elif one.is_repeated:
            found[one.name] = [*found.get(one.name, []), left.pop(0)]
        else:
            found[one.name] = _value(one, left.pop(0))
    return found


def _value(one: Parameter, text: str) -> Any:
    return int(text) if one.kind == "count" and text.isdecimal() else text
