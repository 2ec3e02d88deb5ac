"""Answers are bounded and safe to print, whatever a board holds; schemas are plain and closed."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from callboard.board.reading.activation_document import (
    LeftOut,
    Node,
    PoolFacts,
    Snapshot,
    encode_snapshot,
    read_snapshot,
)
from callboard.errors import CallboardError
from callboard.surfaces.mcp.answers import (
    MAX_ANSWER_BYTES,
    MAX_LINE_BYTES,
    add_fitting,
    refusal,
    size_of,
    text_of,
)
from callboard.surfaces.mcp.arguments import schema_of
from callboard.surfaces.mcp.session import Session
from callboard.surfaces.mcp.tools import EVERYBODY, TOOLS, call, tools_of

WIDE = "\u202e"
"""A character that takes three bytes in a file, and six in an answer."""


def wire_bytes(document: dict[str, Any]) -> int:
    """What an answer takes on the wire at least: both its forms."""
    text = text_of(document)
    return len(json.dumps(text, ensure_ascii=False).encode()) + len(
        json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    )


@given(st.recursive(st.text() | st.integers() | st.none(), lambda one: st.lists(one, max_size=4)))
def test_an_answer_is_what_it_says_and_shows_everything(value: Any) -> None:
    text = text_of({"value": value})
    assert json.loads(text) == {"value": value}
    assert "\n" not in text
    for char in text:
        assert unicodedata.category(char) not in ("Cc", "Zl", "Zp"), repr(char)
        assert unicodedata.bidirectional(char) not in (
            "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
        )  # fmt: skip


def test_a_refusal_of_any_size_is_told_within_bounds() -> None:
    for details in ({}, {"faults": ["x" * 1_000] * 100}):
        found = refusal(CallboardError("code", "m" * 50_000, "h" * 50_000, details))
        assert size_of(found) <= MAX_ANSWER_BYTES
        assert found["error"]["code"] == "code"
    small = CallboardError("code", "m", "h", {"n": 1})
    assert refusal(small) == {"error": small.document()}


@given(st.lists(st.integers(0, 20_000), max_size=8))
def test_parts_are_added_as_long_as_they_fit(sizes: list[int]) -> None:
    document: dict[str, Any] = {"node": {}}
    parts = {f"p{number}": "x" * size for number, size in enumerate(sizes)}
    add_fitting(document, document["node"], parts)
    assert size_of(document) <= MAX_ANSWER_BYTES
    assert {*document["node"], *document.get("left_out", [])} == set(parts)
    if sum(sizes) < MAX_ANSWER_BYTES // 2:
        assert "left_out" not in document


def extreme() -> Snapshot:
    """A snapshot in which everything is as long as it may be."""
    long, key = WIDE * 80, WIDE * 40
    path = [long] * 20
    nodes = [
        Node(
            work_id=f"{number:064x}",
            pool=long,
            priority=5,
            column="stuck",
            stage="waiting",
            reason="r" * 128,
            name=f"{long}:{long}",
            graph_id=long,
            node_key=long,
            fairness_key=key,
            worker_profile=long,
            attempts=16,
            since_ms=2**53 - 1,
            evidence={"path": path, "cause": long},
            next="n" * 600,
            depends_on=[f"{other:064x}" for other in range(64)],
            gates=[{"repository": long}] * 64,
            obstacles=[{"reason": "r", "path": path}] * 16,
            claims=[{"claim_id": "c" * 200, "cancellation_reason": "r" * 128}] * 16,
            payload={"text": WIDE * 5_400},
            result={"text": WIDE * 1_300},
        )
        for number in range(6)
    ]
    pools = [
        PoolFacts(
            pool=long if number == 0 else f"{number}{WIDE * 79}",
            mode="weighted-priority",
            columns=dict.fromkeys(("waiting", "ready", "running", "done", "stuck"), 4_096),
            limits=dict.fromkeys(("claims", "dispatches", "unsettled"), 4_096),
            open=dict.fromkeys(("claims", "dispatches", "unsettled"), 4_096),
            classes=[{"priority": one, "weight": 1_000, "columns": {}} for one in range(1, 6)],
            keys=[{"key": key, "weight": 1_000, "columns": {}}] * 64,
            other_keys={"count": 1_024, "columns": {}},
            workers=[{"worker_profile": long, "available": True, "max_claims": 16}] * 64,
            prediction={"label": "a prediction", "line": ["f" * 64] * 3, "node_key": long},
        )
        for number in range(64)
    ]
    return Snapshot(
        version=1,
        provenance="activation_snapshot",
        role="observer",
        tip="q" * 66,
        evaluated_at_ms=1,
        repository=f"local/{'r' * 200}",
        paused={"admission": True, "grants": True},
        pools=pools,
        nodes=nodes,
        left_out=LeftOut(unsettled=1, settled=1, bodies=1),
    )


@pytest.mark.parametrize("bodies", [False, True])
@pytest.mark.parametrize("pool", [None, WIDE * 80])
def test_no_answer_is_too_long_and_every_walk_ends(bodies: bool, pool: str | None) -> None:
    session = Session.observing(read_snapshot(encode_snapshot(extreme())))
    filters: dict[str, Any] = {"bodies": bodies} | ({} if pool is None else {"pool": pool})
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    for _page in range(20):
        page = call(session, "work_queue_read", {**filters, **cursor})
        assert size_of(page) <= MAX_ANSWER_BYTES
        assert wire_bytes(page) <= MAX_LINE_BYTES
        seen += [row["work_id"] for row in page["nodes"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == [f"{number:064x}" for number in range(6)]
    for work_id in seen:
        why = call(session, "work_queue_explain", {"work_id": work_id, "bodies": bodies})
        assert size_of(why) <= MAX_ANSWER_BYTES
        assert wire_bytes(why) <= MAX_LINE_BYTES
        assert why["node"]["work_id"] == work_id
        assert why["left_out"]


@pytest.mark.parametrize("role", EVERYBODY)
def test_schemas_are_plain_closed_objects(role: Any) -> None:
    for tool in tools_of(role):
        schema = schema_of(tool.arguments, has_claims=role == "worker")
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert set(schema) == {"type", "properties", "required", "additionalProperties"}
        for field in schema["properties"].values():
            assert isinstance(field["type"], str)
            assert field["description"]
            assert not {"anyOf", "oneOf", "allOf", "$ref", "default"} & set(field)


def test_the_table_of_tools_is_the_one_that_was_agreed() -> None:
    assert [tool.name for tool in TOOLS] == [
        "work_queue_read",
        "work_queue_explain",
        "work_queue_submit",
        "work_queue_dispatch_next",
        "work_queue_claim_finish",
        "work_queue_output",
    ]
    for tool in TOOLS:
        fields = set(tool.arguments.__struct_fields__)
        # Nobody names who is to be granted, nor who they are.
        if tool.stages:
            assert not {"work_id", "run_id", "role", "actor", "principal", "trace"} & fields
