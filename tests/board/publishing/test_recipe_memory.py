"""The `[memory]` table of a worker recipe."""

from __future__ import annotations

import pytest

from callboard.board.protocol.memory_rules import MemoryRules
from callboard.board.publishing.recipe import logical_contract, parse_recipe
from callboard.errors import CallboardError

PLAIN = 'command = ["true"]\noutputs = ["memory"]\n'
TABLE = """
[memory]
path = "memory/facts.json"
branch = "facts"
[memory.schema]
type = "object"
required = ["facts"]
[memory.schema.properties.facts]
type = "array"
items = {type = "string", maxLength = 80}
"""
SCHEMA = {
    "type": "object",
    "required": ["facts"],
    "properties": {"facts": {"type": "array", "items": {"type": "string", "maxLength": 80}}},
}


def faults(text: str) -> dict[str, str]:
    with pytest.raises(CallboardError) as refused:
        parse_recipe(text.encode(), name="w")
    assert refused.value.code == "recipe_invalid"
    found = refused.value.details["faults"]
    assert isinstance(found, list)
    return {fault["pointer"]: fault["message"] for fault in found}


def test_the_table_is_read() -> None:
    recipe = parse_recipe((PLAIN + TABLE).encode(), name="w")
    assert recipe.memory == MemoryRules("memory/facts.json", "facts", SCHEMA, None)
    base = "0123456789" * 4
    with_base = TABLE.replace("[memory.schema]", f'base = "{base}"\n[memory.schema]', 1)
    assert parse_recipe((PLAIN + with_base).encode(), name="w").memory == MemoryRules(
        "memory/facts.json", "facts", SCHEMA, base
    )


def test_it_is_no_part_of_what_work_relies_on() -> None:
    one = parse_recipe((PLAIN + TABLE).encode(), name="w")
    other = parse_recipe((PLAIN + TABLE.replace("facts.json", "x.json")).encode(), name="w")
    assert one != other
    assert logical_contract(one) == logical_contract(other)


def test_output_type_and_table_go_together() -> None:
    assert set(faults(PLAIN)) == {"/memory"}
    assert set(faults('command = ["true"]\n' + TABLE)) == {"/memory"}
    assert set(faults(PLAIN + "memory = true\n")) == {"/memory"}


def test_every_fault_is_told_at_once() -> None:
    text = PLAIN + (
        '[memory]\npath = "../x.json"\nbase = "main"\nbrnach = "x"\n'
        '[memory.schema]\ntype = "object"\n'
        '[memory.schema.properties.a]\ntype = "number"\n'
        "[memory.schema.properties.b]\nconst = 1979-05-27\n"
    )
    found = faults(text)
    assert set(found) == {
        "/memory/path", "/memory/branch", "/memory/base", "/memory/brnach",
        "/memory/schema/properties/a/type", "/memory/schema/properties/b/const",
    }  # fmt: skip
    assert "did you mean 'branch'" in found["/memory/brnach"]
    assert set(faults(PLAIN + '[memory]\npath = "a.json"\nbranch = "b"\n')) == {"/memory/schema"}
