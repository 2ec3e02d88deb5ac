"""JSON Schemas (draft 2020-12) of the records, made from the record types and from nothing else.

They describe, and they judge no record here: `validate.py` does. What a schema cannot say stands in
its `$comment`, so that nobody takes one for the whole rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import inspect

from callboard import canonical
from callboard.board.protocol import scalars

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
BEYOND = (
    "Not said here, and checked by every reader: each object has a key once; numbers are spelled "
    "without fraction, exponent or -0; text holds no lone surrogate; bounds in bytes of UTF-8; "
    f"nesting up to {canonical.MAX_DEPTH}, a line up to {canonical.MAX_LINE_BYTES} bytes; how one "
    "field depends on another, such as fingerprints, derived ids and parameters that repeat "
    "operations; who may ask for what; and all that depends on the commits before."
)
_JSON = "Json"
_NO_CONTROL = r"^[^\u0000-\u001f\u007f]*(?![\s\S])"
_END = r"(?![\s\S])"
"""The end of the text: `$` would also match before a last newline in some dialects."""


def schema_of(kinds: Mapping[str, Any]) -> Schema:
    """One document for one record type or several; `kinds` are names of types, for people."""
    definitions = _Definitions()
    arms = [definitions.add(inspect.type_info(kind)) for kind in kinds.values()]
    return {
        "$schema": DIALECT,
        "title": "Callboard: " + ", ".join(kinds),
        "$comment": BEYOND,
        **(arms[0] if len(arms) == 1 else {"anyOf": arms}),
        "$defs": dict(sorted(definitions.found.items())),
    }


class _Definitions:
    """The definitions that a document needs, each record and each named text once.

    Records are worked off a list, so the depth of what they hold costs no stack.
    """

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {}
        self._types: dict[str, type] = {}
        self._waiting: list[inspect.StructType] = []

    def add(self, info: inspect.Type) -> Schema:
        """The reference to a type, all that it needs being defined."""
        made = self._schema(info)
        while self._waiting:
            struct = self._waiting.pop()
            self.found[struct.cls.__name__] = self._record(struct)
        return made

    def _record(self, info: inspect.StructType) -> Schema:
        properties = {field.encode_name: self._schema(field.type) for field in info.fields}
        required = [field.encode_name for field in info.fields if field.required]
        if info.tag_field is not None:
            properties[info.tag_field] = {"const": info.tag}
            required.append(info.tag_field)
        return {
            "type": "object",
            "description": _first_sentence(info.cls),
            "properties": dict(sorted(properties.items())),
            "required": sorted(required),
            "additionalProperties": False,
        }

    def _schema(self, info: inspect.Type) -> Schema:
        if isinstance(info, inspect.Metadata):
            return (
                self._text(info)
                if isinstance(info.type, inspect.StrType)
                else self._schema(info.type)
            )
        for known, build in self._builders:
            if isinstance(info, known):
                return build(self, info)
        raise TypeError(f"no schema for {info!r}")

    def _struct(self, info: inspect.StructType) -> Schema:
        name = info.cls.__name__
        if self._types.setdefault(name, info.cls) is not info.cls:
            raise TypeError(f"two records are called {name}")
        if name not in self.found:
            self.found[name] = {}
            self._waiting.append(info)
        return _reference(name)

    def _text(self, info: inspect.Metadata | inspect.StrType) -> Schema:
        name = _SCALAR_NAMES.get(_text_key(info))
        if name is None:
            return _text_schema(info)
        self.found[name] = _text_schema(info)
        return _reference(name)

    def _integer(self, info: inspect.IntType) -> Schema:
        safe = canonical.MAX_SAFE_INTEGER
        return {
            "type": "integer",
            "minimum": -safe if info.ge is None else info.ge,
            "maximum": safe if info.le is None else info.le,
        }

    def _boolean(self, _info: inspect.BoolType) -> Schema:
        return {"type": "boolean"}

    def _none(self, _info: inspect.NoneType) -> Schema:
        return {"type": "null"}

    def _literal(self, info: inspect.LiteralType) -> Schema:
        values = list(info.values)
        return {"const": values[0]} if len(values) == 1 else {"enum": values}

    def _list(self, info: inspect.ListType) -> Schema:
        bounds = _given(minItems=info.min_length or None, maxItems=info.max_length)
        bounds.setdefault("maxItems", canonical.MAX_ARRAY_MEMBERS)
        return {"type": "array", "items": self._schema(info.item_type), **bounds}

    def _dict(self, info: inspect.DictType) -> Schema:
        made: Schema = {
            "type": "object",
            "additionalProperties": self._schema(info.value_type),
            **_given(minProperties=info.min_length or None, maxProperties=info.max_length),
        }
        plain = (
            isinstance(info.key_type, inspect.StrType) and _text_schema(info.key_type) == _ANY_TEXT
        )
        return made if plain else made | {"propertyNames": self._schema(info.key_type)}

    def _union(self, info: inspect.UnionType) -> Schema:
        tagged = all(isinstance(arm, inspect.StructType) for arm in info.types)
        return {"oneOf" if tagged else "anyOf": [self._schema(arm) for arm in info.types]}

    def _any(self, _info: inspect.AnyType) -> Schema:
        self.found.setdefault(_JSON, _json_schema())
        return _reference(_JSON)

    _builders: tuple[tuple[type[inspect.Type], Callable[[_Definitions, Any], Schema]], ...] = (
        (inspect.StructType, _struct),
        (inspect.UnionType, _union),
        (inspect.StrType, _text),
        (inspect.IntType, _integer),
        (inspect.BoolType, _boolean),
        (inspect.NoneType, _none),
        (inspect.LiteralType, _literal),
        (inspect.ListType, _list),
        (inspect.DictType, _dict),
        (inspect.AnyType, _any),
    )


def _reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _given(**bounds: int | None) -> Schema:
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _first_sentence(record: type) -> str:
    text = " ".join((record.__doc__ or "").split())
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


_ANY_TEXT: Schema = {"type": "string"}


def _text_schema(info: inspect.Metadata | inspect.StrType) -> Schema:
    extra: Mapping[str, Any] = {}
    if isinstance(info, inspect.Metadata):
        extra, inner = info.extra or {}, info.type
        assert isinstance(inner, inspect.StrType)
    else:
        inner = info
    made = _ANY_TEXT | _given(minLength=inner.min_length or None, maxLength=inner.max_length)
    patterns = [_portable(inner.pattern)] if inner.pattern else []
    patterns += [_NO_CONTROL] if extra.get("no_control") else []
    if len(patterns) == 1:
        made["pattern"] = patterns[0]
    elif patterns:
        made["allOf"] = [{"pattern": pattern} for pattern in patterns]
    if "utf8_bytes" in extra:
        made["$comment"] = (
            f"at most {extra['utf8_bytes']} bytes of UTF-8; a schema counts characters alone"
        )
    return made


def _portable(pattern: str) -> str:
    """A pattern of Python in the dialect that schemas are written in."""
    return pattern.replace(r"\A", "^").replace(r"\Z", _END)


def _json_schema() -> Schema:
    """Any value within the codec's profile."""
    safe = canonical.MAX_SAFE_INTEGER
    return {
        "description": "Any value; numbers are whole and safe.",
        "$comment": f"nested at most {canonical.MAX_DEPTH} deep, the whole line included",
        "anyOf": [
            {"type": ["null", "boolean", "string"]},
            {"type": "integer", "minimum": -safe, "maximum": safe},
            {"type": "array", "maxItems": canonical.MAX_ARRAY_MEMBERS, "items": _reference(_JSON)},
            {"type": "object", "additionalProperties": _reference(_JSON)},
        ],
    }


def _text_key(info: inspect.Metadata | inspect.StrType) -> tuple[object, ...]:
    inner = info.type if isinstance(info, inspect.Metadata) else info
    assert isinstance(inner, inspect.StrType)
    return inner.pattern, inner.min_length, inner.max_length


def _named_scalars(names: Iterable[str]) -> dict[tuple[object, ...], str]:
    """The texts that the protocol has names for; the first name of two that are alike."""
    found: dict[tuple[object, ...], str] = {}
    for name in names:
        info = inspect.type_info(getattr(scalars, name))
        assert isinstance(info, inspect.Metadata | inspect.StrType)
        found.setdefault(_text_key(info), name)
    return found


_SCALAR_NAMES = _named_scalars(
    (
        "Identity", "FairnessKey", "ReasonCode", "Decimal", "Revision", "Digest", "RepositoryName",
        "WorkflowPath",
    )
)  # fmt: skip
