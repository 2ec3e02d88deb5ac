"""Closed records of what tools take: each makes its tool's JSON Schema, and judges its calls.

What the tools are about is not known here.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from callboard.errors import CallboardError
from callboard.validate import parse


class Arguments(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """What one tool takes; a field that is not needed is absent where it is not given."""


T = TypeVar("T", bound=Arguments)


def closed_schema(kind: type[Arguments]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments: a plain object that is closed."""
    _references, components = msgspec.json.schema_components([kind])
    found: dict[str, Any] = components[kind.__name__]
    for field in found["properties"].values():
        if "enum" in field:
            field["type"] = "string"
    return {
        "type": "object",
        "properties": {
            name: {key: value for key, value in field.items() if key != "default"}
            for name, field in found["properties"].items()
        },
        "required": found["required"],
        "additionalProperties": False,
    }


def read_arguments(kind: type[T], raw: dict[str, Any], tool: str) -> T:
    """The arguments of a call, or `arguments_invalid` with every fault."""
    try:
        return parse(kind, raw, what=f"arguments of {tool}", code="arguments_invalid")
    except CallboardError as error:
        error.hint = "correct the named fields; a field that is not needed is left out, not null"
        raise
