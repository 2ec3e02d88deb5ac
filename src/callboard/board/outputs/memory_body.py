"""What the body of a memory must be: a JSON object that its recipe's schema allows.

Source: specification 1, §9.1. The worker's side and the trusted side judge by this one function. A
body says of itself whose it is at most to be refused for it; it never selects a Claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callboard import canonical
from callboard.board.outputs.bodies import json_object
from callboard.board.protocol.memory_schema import closed
from callboard.errors import CallboardError
from callboard.validate import MAX_FAULTS, Fault, near, pointer_step, refuse, show

WORK_ID = "work_id"


def memory_bytes(data: bytes) -> bytes:
    """The canonical bytes of a memory, as its file has them.

    Raises `body_invalid` or a codec code.
    """
    return canonical.encode(json_object(data, "memory"))


def check_memory(data: bytes, schema: Mapping[str, Any], path: str, work_id: str) -> None:
    """Judge the body of a memory of the Work `work_id`.

    Raises `memory_foreign`, `memory_invalid` with the faults in `details`, `body_invalid` or a
    codec code.
    """
    body = json_object(data, "memory")
    if WORK_ID in body and body[WORK_ID] != work_id:
        raise CallboardError(
            "memory_foreign",
            f"the memory says that it is of Work {show(body[WORK_ID])}, and this claim's is "
            f"{work_id}",
            "remember for the claim's own Work, and leave work_id out if in doubt",
            {"found": show(body[WORK_ID]), "work_id": work_id},
        )
    faults = _faults(body, schema)
    if faults:
        raise refuse(
            "memory_invalid",
            f"the memory {path}",
            faults,
            "write it as the schema of the worker's recipe has it, under [memory]",
        )


def _faults(body: canonical.Json, schema: Mapping[str, Any]) -> list[Fault]:
    # Imported only where a memory is judged: it takes longer than most commands.
    from jsonschema import Draft202012Validator

    found: dict[tuple[str, str], Fault] = {}
    for error in Draft202012Validator(closed(schema)).iter_errors(body):
        pointer = "".join(pointer_step(step) for step in error.absolute_path)
        for fault in _told(
            str(error.validator), error.validator_value, error.schema, pointer, error.instance
        ):
            found[fault.pointer, fault.message] = fault
        if len(found) >= MAX_FAULTS:
            break
    return sorted(found.values())


def _told(word: str, stated: Any, schema: Any, pointer: str, value: Any) -> list[Fault]:
    """The faults of one value in our own words: theirs would repeat it, whatever its size."""
    if word == "required":
        missing = [name for name in stated if name not in value]
        return [Fault(pointer + pointer_step(name), "is missing") for name in missing]
    if word == "additionalProperties":
        known = list(schema["properties"])
        return [
            Fault(pointer + pointer_step(name), f"is not in the schema{near(name, known)}")
            for name in value
            if name not in known
        ]
    if word in ("minItems", "maxItems"):
        return [Fault(pointer, f"has {len(value)} members, {word} is {stated}")]
    if word in ("minLength", "maxLength"):
        return [Fault(pointer, f"has {len(value)} characters, {word} is {stated}")]
    return [Fault(pointer, f"is {show(value)}, {word} is {show(stated)}")]
