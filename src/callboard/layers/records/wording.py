"""The fault of a record in plain words: where it is, what must stand there, what was found.

It turns what the validating library says into our own words, and knows no record.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect

from callboard import canonical
from callboard.errors import CallboardError
from callboard.visible import visible

_PLACE = re.compile(r" - at (`key` in )?`\$((?:\.\w+|\[\d+\]|\[\.\.\.\])*)`$")
_STEP = re.compile(r"\.(\w+)|\[([^\]]+)\]")
_UNNAMED = "..."
"""Where the library does not tell which member of a mapping it means."""

_TYPES = {
    "array": "an array", "bool": "true or false", "dict": "an object", "float": "a fraction",
    "int": "a whole number", "null": "null", "object": "an object", "str": "text",
}  # fmt: skip
_GOT = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`)?$")
_RANGE = re.compile(r"Expected `int` (>=|<=) (-?\d+)$")
_LENGTH = re.compile(r"Expected `(\w+)` of length (>=|<=) (\d+)$")
_PATTERN = re.compile(r"Expected `str` matching regex (.*)$", re.DOTALL)
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`$", re.DOTALL)

_patterns: dict[str, str] = {}


def worded(pattern: str, words: str) -> str:
    """The pattern of a field's type, which messages spell as `words`: what a value must be."""
    _patterns[repr(pattern)] = words
    return pattern


def refusal(value: object, kind: Any, message: str, what: str) -> CallboardError:
    """The refusal of `value`, which is no `kind` for the reason that the library gave."""
    place = _PLACE.search(message)
    if place is not None and not _exists(value, _STEP.findall(place[2])):
        # It is part of a name in the document, which the message ends in.
        place = None
    plain = message[: place.start()] if place is not None else message
    steps = [a or b for a, b in _STEP.findall(place[2])] if place is not None else []
    of_name = place is not None and place[1] is not None
    if of_name:
        steps.append(_UNNAMED)
    steps = _named(value, kind, message, steps)
    pointer = "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)
    found = steps[-1] if of_name else _at(value, steps)
    where = f"the name of {pointer}" if of_name else pointer or "the document"
    return CallboardError(
        "record_invalid",
        f"{what}: {visible(where)} {_words(plain, kind, steps)}; it is {_shown(found)}",
        "correct what is named; only the documented fields are allowed, and each has one type",
        {"what": what, "pointer": pointer},
    )


# --- where ----------------------------------------------------------------------------------------


def _named(value: object, kind: Any, message: str, steps: list[str]) -> list[str]:
    """The steps with the member of each mapping that is meant: alone, it has the same fault."""
    for at, step in enumerate(steps):
        if step != _UNNAMED:
            continue
        members = _at(value, steps[:at])
        for key, member in members.items() if isinstance(members, dict) else ():
            alone = _with(value, steps[:at], {key: member})
            try:
                msgspec.convert(alone, kind, strict=True)
            except msgspec.ValidationError as error:
                if str(error) == message:
                    steps, value = [*steps[:at], str(key), *steps[at + 1 :]], alone
                    break
    return steps


def _with(value: Any, steps: list[str], new: object) -> object:
    """A copy of `value` with something else in one place."""
    if not steps:
        return new
    step, *rest = steps
    if isinstance(value, dict):
        return {**value, step: _with(value[step], rest, new)}
    at = int(step)
    return [*value[:at], _with(value[at], rest, new), *value[at + 1 :]]


def _exists(value: object, found: list[tuple[str, str]]) -> bool:
    for name, index in found:
        if index == _UNNAMED:
            return isinstance(value, dict)
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, (list, tuple)) and index.isdigit() and int(index) < len(value):
            value = value[int(index)]
        else:
            return False
    return True


def _at(value: object, steps: list[str]) -> object:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, (list, tuple)) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            break
    return value


# --- what -----------------------------------------------------------------------------------------


def _words(message: str, kind: Any, steps: list[str]) -> str:
    if (found := _GOT.match(message)) is not None:
        return f"must be {_types(found[1])}" + (f", not {_types(found[2])}" if found[2] else "")
    if (found := _RANGE.match(message)) is not None:
        return f"must be {found[2]} or {'more' if found[1] == '>=' else 'less'}"
    if (found := _LENGTH.match(message)) is not None:
        unit = "characters" if found[1] == "str" else "entries"
        return f"must have {found[3]} or {'more' if found[2] == '>=' else 'fewer'} {unit}"
    if (found := _PATTERN.match(message)) is not None:
        return f"must be {_patterns.get(found[1], 'of another form')}"
    if (found := _FIELD.match(message)) is not None:
        name = visible(found[2][:100])
        if found[1] == "missing required":
            return f"lacks the field `{name}`"
        return f"has the field `{name}`, which is not one of its fields"
    if message.startswith("Invalid "):
        return f"must be {_allowed(kind, steps)}"
    return f"is refused: {visible(message)}"


def _types(names: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in names.split(" | "))


def _allowed(kind: Any, steps: list[str]) -> str:
    """The values that a field of fixed values may have."""
    values: list[Any] = []
    rest = [inspect.type_info(kind)]
    for step in [*steps, None]:
        values = [v for one in rest for v in _values(one, step)]
        rest = [deeper for one in rest for deeper in _below(one, step)]
    named = [visible(canonical.encode(value).decode()) for value in values]
    return " or ".join(named) if len(named) < 3 else f"one of {', '.join(named)}"


def _values(info: inspect.Type, step: str | None) -> list[Any]:
    if isinstance(info, inspect.UnionType):
        return [value for one in info.types for value in _values(one, step)]
    return list(info.values) if isinstance(info, inspect.LiteralType) and step is None else []


def _below(info: inspect.Type, step: str | None) -> list[inspect.Type]:
    """What may stand one step below: several types in a union."""
    if isinstance(info, inspect.UnionType):
        return [deeper for one in info.types for deeper in _below(one, step)]
    if isinstance(info, inspect.StructType):
        if step == info.tag_field and step is not None:
            return [inspect.LiteralType(values=(info.tag,))]
        return [one.type for one in info.fields if one.name == step]
    if isinstance(info, inspect.DictType):
        return [info.value_type]
    return [info.item_type] if isinstance(info, inspect.VarTupleType) else []


def _shown(value: object) -> str:
    if isinstance(value, dict):
        names = ", ".join(sorted(visible(str(name))[:100] for name in value))
        return f"an object with {names[:200] or 'no field'}"
    if isinstance(value, (list, tuple)):
        return f"an array of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    # A document in YAML has more kinds of values than JSON.
    text = visible(_spelled(value))
    return text if len(text) <= 120 else f"{text[:117]}..."


def _spelled(value: object) -> str:
    if isinstance(value, str):
        return f'"{value[:200]}"'
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)
