"""The subset of JSON Schema that a memory may be described in, and where a memory may lie."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.board.protocol.memory_rules import base_fault, branch_fault, path_fault
from callboard.board.protocol.memory_schema import (
    MAX_CHOICES,
    MAX_PROPERTIES,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
    closed,
    schema_faults,
)


def faults(schema: object) -> dict[str, str]:
    return {fault.pointer: fault.message for fault in schema_faults(schema)}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _level in range(depth - 1):
        schema = of(inner=schema)
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        of(a={"type": "integer", "minimum": -3, "maximum": 3}, b={"enum": ["x", 1, None]}),
        of(a={"const": {"k": [True]}}, b={"type": "string", "enum": ["x"], "maxLength": 0}),
        of(a={"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 1}),
        {**of(a={"type": "boolean"}), "required": ["a"], "additionalProperties": True},
        nested(MAX_SCHEMA_DEPTH),
        of(**{f"p{number}": {"type": "null"} for number in range(MAX_PROPERTIES)}),
    ],
)
def test_a_sound_schema_has_no_faults(schema: dict[str, Any]) -> None:
    assert faults(schema) == {}


def test_every_fault_is_told_with_its_place() -> None:
    found = faults(
        {
            "type": "object",
            "requried": ["a"],
            "$ref": "#",
            "maxLength": 3,
            "additionalProperties": {"type": "string"},
            "required": ["a", "b", "a", 3],
            "properties": {
                "a": {"type": "strnig"},
                "": {"type": "null"},
                "c/d": {"type": "string", "pattern": "x", "minLength": 3, "maxLength": 2},
                "e": {"type": "array", "minItems": True},
                "f": {"type": "integer", "minimum": 1.5, "maximum": 2**60},
                "g": {"minimum": 3},
                "h": "string",
                "i": {"type": ["string", "null"]},
                "j": {"enum": []},
                "k": {"enum": [1.5], "const": 2.5},
                "l": {"const": 1, "maximum": 3},
                "m": {"type": "number"},
            },
        }
    )
    assert set(found) == {
        "/requried", "/$ref", "/maxLength", "/additionalProperties", "/required/1", "/required/2",
        "/required/3", "/properties/a/type", "/properties/", "/properties/c~1d/pattern",
        "/properties/c~1d/minLength", "/properties/e/items", "/properties/e/minItems",
        "/properties/f/minimum", "/properties/f/maximum", "/properties/g/type",
        "/properties/g/minimum", "/properties/h", "/properties/i/type", "/properties/j/enum",
        "/properties/k/enum/0", "/properties/k/const", "/properties/l/maximum",
        "/properties/m/type",
    }  # fmt: skip
    assert "did you mean 'required'" in found["/requried"]
    assert "did you mean 'string'" in found["/properties/a/type"]


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ("object", ""),
        ({}, "/type"),
        ({"type": "string"}, "/type"),
        ({"enum": [{}]}, "/type"),
        (nested(MAX_SCHEMA_DEPTH + 1), "/properties/inner" * MAX_SCHEMA_DEPTH),
        (of(**{f"p{number}": {"type": "null"} for number in range(MAX_PROPERTIES + 1)}),
         "/properties"),
        (of(a={"enum": list(range(MAX_CHOICES + 1))}), "/properties/a/enum"),
        (of(a={"const": "x" * MAX_SCHEMA_BYTES}), ""),
        ({"type": "object", "properties": []}, "/properties"),
        ({"type": "object", "required": "a"}, "/required"),
    ],
)  # fmt: skip
def test_bounds_hold(schema: object, place: str) -> None:
    assert list(faults(schema)) == [place]


def test_objects_are_closed_at_every_depth_unless_they_say_otherwise() -> None:
    open_one = {"type": "object", "additionalProperties": True}
    made = closed(of(a={"type": "array", "items": of(b=open_one)}))
    assert made == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "a": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"b": {**open_one, "properties": {}}},
                },
            }
        },
    }


@pytest.mark.parametrize(
    "path", ["a.json", "memory/a-b.c.json", ".agents/x/y_1.json", "a" * 95 + ".json"]
)
def test_a_plain_path_will_do(path: str) -> None:
    assert path_fault(path) == ""


@pytest.mark.parametrize(
    "path",
    [
        None, 3, "", ".json", "a", "a.JSON", "/a.json", "a//b.json", "../a.json", "a/../b.json",
        "./a.json", ".git/a.json", "x/.GIT/a.json", ".callboard/a.json", "a b.json", "a\\b.json",
        "a\n.json", "-a.json", "é.json", "git~1/a.json", "a/.json", "a/", "a.json/", "a..json",
        "a..b.json",        "/".join(["abcdefgh"] * 30) + ".json", "a" * 120 + ".json",
    ],
)  # fmt: skip
def test_another_path_will_not(path: object) -> None:
    assert path_fault(path)


@pytest.mark.parametrize("name", ["a", "Notes_1", "a-b.c"])
def test_a_plain_name_of_branches_will_do(name: str) -> None:
    assert branch_fault(name) == ""


@pytest.mark.parametrize(
    "name", [None, "", "a/b", "a..b", ".a", "a.", "-a", "a.lock", "a b", "a\n", "x" * 65, "é"]
)
def test_another_name_will_not(name: object) -> None:
    assert branch_fault(name)


@pytest.mark.parametrize("base", [None, "0" * 40, "a" * 64])
def test_a_full_commit_id_will_do(base: str | None) -> None:
    assert base_fault(base) == ""


@pytest.mark.parametrize("base", ["main", "0" * 39, "A" * 40, "0" * 64 + "\n", 3])
def test_nothing_that_moves_can_be_a_base(base: object) -> None:
    assert base_fault(base)
