"""The JSON Schemas, judged by a validator that is not ours: what the types take and refuse."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import inspect

from callboard import canonical
from callboard.board.protocol.commit import Assignment, QueueCommit
from callboard.board.protocol.envelope import parse_commit
from callboard.board.protocol.schema import schema_of
from callboard.board.publishing.plan import Plan
from callboard.errors import CallboardError
from callboard.validate import faults_of
from tests.ambient import DEEP
from tests.board.github_board import WORKFLOW, github_board
from tests.board.ledger import changes
from tests.board.ledger.changes import Change, Doc
from tests.board.protocol.wire_fields import WIRE, wire_fields
from tests.model.history import random_history

COMMIT = Draft202012Validator(schema_of({"commit": QueueCommit}))
ASSIGNMENT = Draft202012Validator(schema_of({"assignment": Assignment}))
SHARE = 0.2 if DEEP else 0.004


def faults(validator: Draft202012Validator, value: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(value)]


def plain(value: object) -> Any:
    return canonical.decode(canonical.encode(value))


@pytest.mark.parametrize("kinds", [{"commit": QueueCommit}, {"commit": QueueCommit, "plan": Plan}])
def test_it_is_a_sound_schema(kinds: dict[str, Any]) -> None:
    made = schema_of(kinds)
    Draft202012Validator.check_schema(made)
    assert canonical.encode(made) == canonical.encode(schema_of(kinds))
    for name, definition in made["$defs"].items():
        if definition.get("type") == "object" and "properties" in definition:
            assert definition["additionalProperties"] is False, name
    # Nothing is defined that nothing refers to.
    text = json.dumps(made)
    assert all(f'"#/$defs/{name}"' in text for name in made["$defs"])


@pytest.mark.parametrize("seed", range(12 if DEEP else 4))
def test_ledgers_fit(seed: int) -> None:
    for commit in random_history(seed, 40):
        assert faults(COMMIT, commit) == []


def test_a_ledger_of_a_github_board_fits() -> None:
    board = github_board()
    kinds = set()
    for row in board.data.splitlines():
        commit = json.loads(row)
        assert faults(COMMIT, commit) == []
        kinds |= {one["kind"] for one in commit["operations"]}
    assert {"Policy", "Work", "Claim", "Completion", "Result", "DeliveryFailure"} <= kinds
    assert {"Observation", "Control", "ClaimCancellation", "WorkCancellation", "Release"} <= kinds
    for state in board.projection.dispatches.values():
        assert faults(ASSIGNMENT, plain(state.assignment)) == []
    first = plain(next(iter(board.projection.dispatches.values())).assignment)
    assert faults(ASSIGNMENT, first | {"claims": []})
    assert faults(ASSIGNMENT, first | {"version": 2})


def test_plans_fit() -> None:
    validator = Draft202012Validator(schema_of({"plan": Plan}))
    assert faults(validator, {"nodes": [{"payload": {}}]}) == []
    node = {"key": "a", "payload": {"n": 1}, "after": ["b"], "contract": {"kind": "none"}}
    assert faults(validator, {"graph": "g", "defaults": {"priority": 5}, "nodes": [node]}) == []
    unfit: list[Any] = [
        {}, {"nodes": []}, {"nodes": [{}]}, {"nodes": [{"payload": {"n": 0.5}}]}, [],
        {"nodes": [node | {"priority": 6}]}, {"nodes": [node | {"after": [""]}]},
        {"nodes": [node], "x": 1},
    ]  # fmt: skip
    for wrong in unfit:
        assert faults(validator, wrong), wrong


# --- what it refuses ----------------------------------------------------------------------------


def types_take(document: Doc) -> bool:
    """Whether the types take a document; the codec has its say about what they leave open."""
    try:
        parse_commit(canonical.decode_strict(canonical.encode(document)))
    except CallboardError:
        return False
    return True


def is_beyond(document: Doc) -> bool:
    """Whether what is wrong is among what the schema says that it cannot tell."""
    try:
        canonical.encode(document)
    except CallboardError as error:
        # A surrogate, or what is nested too deep.
        return error.code in ("invalid_unicode", "resource_limit")
    return all("UTF-8 bytes" in fault.message for fault in faults_of(QueueCommit, document))


def has_whole_float(value: Any) -> bool:
    """Whether a number is spelled as a fraction and is none: 1.0 is 1 to a schema."""
    if isinstance(value, float):
        return value.is_integer()
    members = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    return any(map(has_whole_float, members))


def sampled(seed: int) -> list[Change]:
    history = random_history(seed, 40)
    known = changes.known(history)
    chance = random.Random(seed)
    return [
        change
        for commit in history
        for change in changes.changes(commit, known)
        if chance.random() < SHARE
    ]


@pytest.mark.parametrize("seed", range(2))
def test_it_refuses_what_the_types_refuse_and_nothing_else(seed: int) -> None:
    verdicts = {True: 0, False: 0}
    for change in sampled(seed):
        if has_whole_float(change.document):
            continue
        taken, fits = types_take(change.document), COMMIT.is_valid(change.document)
        assert fits or not taken, (change, faults(COMMIT, change.document))
        assert taken or not fits or is_beyond(change.document), change
        verdicts[fits] += 1
    assert min(verdicts.values()) > 40


def test_what_it_cannot_tell_is_said_where_it_cannot() -> None:
    made = schema_of({"commit": QueueCommit})
    assert "256 bytes" in made["$defs"]["Identity"]["$comment"]
    assert "128 bytes" in made["$defs"]["FairnessKey"]["$comment"]
    assert "64 deep" in made["$defs"]["Json"]["$comment"]
    for word in ("once", "surrogate", "UTF-8", "-0", "fingerprints"):
        assert word in made["$comment"]


# --- the fields of the wire ---------------------------------------------------------------------


def test_the_types_have_the_fields_of_the_wire() -> None:
    found: dict[str, dict[str, bool]] = {}
    for kind in (QueueCommit, Assignment):
        for name, definition in schema_of({"it": kind})["$defs"].items():
            if "properties" in definition:
                required = definition["required"]
                found[name] = {field: field in required for field in definition["properties"]}
    assert {name.replace("Request", "") for name in found if name.endswith("Request")} == {
        "Policy", "Submit", "DispatchNext", "Finish", "Observe", "Dispatch", "Result",
        "DeliveryFailure", "Control", "Deployment", "Priority", "Release", "CancelWork",
        "CancelClaim", "IssueLink", "IssueComment", "Checkpoint",
    }  # fmt: skip
    for name, fields in found.items():
        assert fields == wire_fields(name), name
    assert {"Request" if name.endswith("Request") else name for name in found} == WIRE.keys()


def test_a_ledger_of_a_github_board_has_only_fields_of_the_wire() -> None:
    board = github_board()
    text = board.data.decode()
    assert '"event":"workflow_dispatch"' in text
    assert "host_api" not in text.replace("github_api", "")
    assert "host_dispatch" not in text
    assert WORKFLOW in text
    for row in board.data.splitlines():
        walk(json.loads(row), inspect.type_info(QueueCommit))


def walk(value: Any, info: inspect.Type) -> None:
    """Compare the keys of every record within a value with the page's."""
    inner = changes.arm_of(info, value)
    if isinstance(inner, inspect.StructType):
        fields = wire_fields(inner.cls.__name__)
        assert value.keys() <= fields.keys()
        assert {name for name, required in fields.items() if required} <= value.keys()
        for field in inner.fields:
            if field.encode_name in value:
                walk(value[field.encode_name], field.type)
    elif isinstance(inner, inspect.ListType):
        for member in value:
            walk(member, inner.item_type)
    elif isinstance(inner, inspect.DictType):
        for member in value.values():
            walk(member, inner.value_type)


def test_null_is_never_a_value_of_a_field_but_previous() -> None:
    for row in github_board().data.splitlines():
        assert ":null" not in row.decode().replace('"previous":null', "")
