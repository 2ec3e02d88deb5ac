"""The schemas of memories: a small subset of JSON Schema, and what is wrong with a stated one.

Source: specification 1, §9.1 (a bounded inline typed schema). Words and shapes only, so that a
schema can neither reach out of itself nor cost more than it says; no value is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from callboard import canonical
from callboard.errors import CallboardError
from callboard.validate import MAX_FAULTS, Fault, near, pointer_step, show

MAX_SCHEMA_BYTES = 16 * 1024
MAX_SCHEMA_DEPTH = 8
MAX_PROPERTIES = 64
MAX_CHOICES = 64
_MAX_NAME = 128
_BIGGEST = canonical.MAX_SAFE_INTEGER

TYPES = MappingProxyType(
    {
        "object": ("properties", "required", "additionalProperties"),
        "array": ("items", "minItems", "maxItems"),
        "string": ("minLength", "maxLength"),
        "integer": ("minimum", "maximum"),
        "boolean": (),
        "null": (),
    }
)
"""Type -> the words that go with it, beside `enum` and `const`."""

_RANGES = (("minItems", "maxItems"), ("minLength", "maxLength"), ("minimum", "maximum"))
_WORDS = ("type", "enum", "const", *(word for words in TYPES.values() for word in words))


def schema_faults(schema: object, pointer: str = "") -> list[Fault]:
    """Everything wrong with a stated schema, which has to be that of an object."""
    faults: list[Fault] = []
    _check(schema, pointer, 1, faults)
    if isinstance(schema, dict) and schema.get("type") != "object" and not faults:
        faults.append(Fault(f"{pointer}/type", "a memory is an object, and so says its schema"))
    return faults or _size_faults(schema, pointer)


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A sound schema in the words of JSON Schema: objects take no properties that are not named,
    unless they say so themselves."""
    made = dict(schema)
    if made.get("type") == "object":
        stated: Mapping[str, Any] = made.get("properties", {})
        made["properties"] = {name: closed(inner) for name, inner in stated.items()}
        made.setdefault("additionalProperties", False)
    if "items" in made:
        made["items"] = closed(made["items"])
    return made


def _size_faults(schema: object, pointer: str) -> list[Fault]:
    try:
        size = len(canonical.encode(schema))
    except CallboardError as error:
        return [Fault(pointer, error.message)]
    if size <= MAX_SCHEMA_BYTES:
        return []
    return [Fault(pointer, f"takes {size} bytes as JSON, at most {MAX_SCHEMA_BYTES} are allowed")]


def _check(schema: object, pointer: str, depth: int, faults: list[Fault]) -> None:
    if len(faults) >= MAX_FAULTS:
        return
    if not isinstance(schema, dict):
        faults.append(Fault(pointer, f"is {show(schema)}, not a schema"))
        return
    if depth > MAX_SCHEMA_DEPTH:
        faults.append(Fault(pointer, f"is nested deeper than {MAX_SCHEMA_DEPTH}"))
        return
    _check_words(schema, pointer, faults)
    for word in ("minItems", "maxItems", "minLength", "maxLength"):
        _check_bound(schema, word, 0, pointer, faults)
    for word in ("minimum", "maximum"):
        _check_bound(schema, word, -_BIGGEST, pointer, faults)
    for least, most in _RANGES:
        low, high = schema.get(least), schema.get(most)
        if type(low) is int and type(high) is int and low > high:
            faults.append(Fault(f"{pointer}/{least}", f"is {low}, more than {most}, {high}"))
    _check_choices(schema, pointer, faults)
    _check_object(schema, pointer, depth, faults)
    if "items" in schema:
        _check(schema["items"], f"{pointer}/items", depth + 1, faults)


def _check_words(schema: dict[str, Any], pointer: str, faults: list[Fault]) -> None:
    """The type is known, and each word is one that goes with it."""
    kind = schema.get("type")
    if "type" in schema and not (isinstance(kind, str) and kind in TYPES):
        hint = near(kind, list(TYPES)) if isinstance(kind, str) else ""
        hint = hint or f"; known are {', '.join(TYPES)}"
        faults.append(Fault(f"{pointer}/type", f"is {show(kind)}, no known type{hint}"))
    elif "type" not in schema and not schema.keys() & {"enum", "const"}:
        faults.append(Fault(f"{pointer}/type", "is missing"))
    if kind == "array" and "items" not in schema:
        faults.append(Fault(f"{pointer}/items", "is missing: what each member is"))
    fitting = TYPES.get(kind, _WORDS) if isinstance(kind, str) else _WORDS
    for word in schema:
        place = pointer + pointer_step(word)
        if word not in _WORDS:
            hint = near(str(word), list(_WORDS)) or f"; known are {', '.join(_WORDS)}"
            faults.append(Fault(place, f"is not known here{hint}"))
        elif word not in ("type", "enum", "const", *fitting):
            faults.append(Fault(place, f"does not go with the type {kind}"))
        elif "type" not in schema and word not in ("enum", "const"):
            faults.append(Fault(place, "goes with a type, and none is given"))


def _check_bound(
    schema: dict[str, Any], word: str, least: int, pointer: str, faults: list[Fault]
) -> None:
    value = schema.get(word, least)
    if type(value) is not int or not least <= value <= _BIGGEST:
        text = f"is {show(value)}, not an integer {least}..{_BIGGEST}"
        faults.append(Fault(f"{pointer}/{word}", text))


def _check_choices(schema: dict[str, Any], pointer: str, faults: list[Fault]) -> None:
    choices = schema.get("enum", [None])
    if not isinstance(choices, list) or not 1 <= len(choices) <= MAX_CHOICES:
        text = f"is {show(choices)}, not a list of 1 to {MAX_CHOICES} values"
        faults.append(Fault(f"{pointer}/enum", text))
        return
    values = {f"{pointer}/enum/{at}": value for at, value in enumerate(choices)}
    if "const" in schema:
        values[f"{pointer}/const"] = schema["const"]
    for place, value in values.items():
        try:
            canonical.encode(value)
        except CallboardError as error:
            faults.append(Fault(place, error.message))


def _check_object(schema: dict[str, Any], pointer: str, depth: int, faults: list[Fault]) -> None:
    properties = schema.get("properties", {})
    if not isinstance(properties, dict) or len(properties) > MAX_PROPERTIES:
        text = f"is {show(properties)}, not a table of at most {MAX_PROPERTIES} schemas"
        faults.append(Fault(f"{pointer}/properties", text))
        properties = {}
    for name, inner in properties.items():
        place = f"{pointer}/properties{pointer_step(name)}"
        if not isinstance(name, str) or not 1 <= len(name) <= _MAX_NAME:
            faults.append(Fault(place, f"is not a name of 1 to {_MAX_NAME} characters"))
        _check(inner, place, depth + 1, faults)
    if not isinstance(schema.get("additionalProperties", False), bool):
        found = show(schema["additionalProperties"])
        faults.append(Fault(f"{pointer}/additionalProperties", f"is {found}, not true or false"))
    _check_required(schema.get("required", []), properties, pointer, faults)


def _check_required(
    required: object, properties: Mapping[str, Any], pointer: str, faults: list[Fault]
) -> None:
    if not isinstance(required, list) or len(required) > MAX_PROPERTIES:
        text = f"is {show(required)}, not a list of at most {MAX_PROPERTIES} names"
        faults.append(Fault(f"{pointer}/required", text))
        return
    for at, name in enumerate(required):
        place = f"{pointer}/required/{at}"
        if not isinstance(name, str) or name not in properties:
            hint = near(name, list(properties)) if isinstance(name, str) else ""
            faults.append(Fault(place, f"is {show(name)}, not one of the properties{hint}"))
        elif name in required[:at]:
            faults.append(Fault(place, f"is {show(name)}, which stands twice"))
