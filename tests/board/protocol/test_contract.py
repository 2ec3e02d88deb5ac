"""Effect contracts: the two forms, and everything that only looks like one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callboard.board.protocol.contract import contract_faults, contract_of, parse_contract
from callboard.errors import CallboardError


def rule(**changes: Any) -> dict[str, Any]:
    return {"type": "patch", "min": 1, "max": 1} | changes


def full(*outputs: object, **changes: Any) -> dict[str, Any]:
    return {"version": 1, "outputs": list(outputs)} | changes


VERIFIED = {"verifier_id": "Digest.v2", "expected": {"sha256": ["x", None, True]}}


@pytest.mark.parametrize(
    "contract",
    [
        {"kind": "none"},
        full(no_writes=True),
        full(rule()),
        full(rule(), no_writes=False),
        full(rule(min=0, max=0)),
        full(rule(min=128, max=128)),
        full(rule(verification=VERIFIED), rule(type="artifact", min=0)),
        full(*[rule(type=f"t{n}") for n in range(128)]),
    ],
)
def test_sound_contracts(contract: object) -> None:
    assert contract_faults(contract) == []
    parsed = parse_contract(contract)
    assert parsed.version == 1
    assert (parsed.no_writes is True) == (not parsed.outputs)


@pytest.mark.parametrize(
    ("contract", "pointer"),
    [
        ({"kind": "none", "no_writes": True}, ""),
        ({"kind": "None"}, ""),
        ({"kind": None}, ""),
        (None, ""),
        ("none", ""),
        ([], ""),
        ({}, "/version"),
        (full(version=2, no_writes=True), "/version"),
        (full(version=True, no_writes=True), "/version"),
        (full(), "/no_writes"),
        (full(no_writes=False), "/no_writes"),
        (full(rule(), no_writes=True), "/no_writes"),
        (full(rule(), no_writes=None), "/no_writes"),
        (full(rule(), extra=1), "/extra"),
        (full(rule(min=-1)), "/outputs/0/min"),
        (full(rule(max=129)), "/outputs/0/max"),
        (full(rule(min=2)), "/outputs/0/min"),
        (full(rule(min=True)), "/outputs/0/min"),
        (full(rule(type="")), "/outputs/0/type"),
        (full(rule(type="a\x00")), "/outputs/0/type"),
        (full(rule(), rule(min=0)), "/outputs/1/type"),
        (full(rule(verification=None)), "/outputs/0/verification"),
        (full(rule(verification={"verifier_id": "v"})), "/outputs/0/verification/expected"),
        (full(rule(verification={"expected": {}})), "/outputs/0/verification/verifier_id"),
        (
            full(rule(verification=VERIFIED | {"verifier_id": "v\n"})),
            "/outputs/0/verification/verifier_id",
        ),
        (
            full(rule(verification=VERIFIED | {"command": "curl"})),
            "/outputs/0/verification/command",
        ),
        (full(rule(verification=VERIFIED | {"expected": []})), "/outputs/0/verification/expected"),
        (full(*[rule(type=f"t{n}") for n in range(129)]), "/outputs"),
    ],
)
def test_unsound_contracts(contract: object, pointer: str) -> None:
    assert pointer in [fault.pointer for fault in contract_faults(contract)]
    moved = [fault.pointer for fault in contract_faults(contract, "/payload/effect_contract")]
    assert "/payload/effect_contract" + pointer in moved
    with pytest.raises(CallboardError) as caught:
        parse_contract(contract)
    assert caught.value.code == "contract_invalid"
    assert caught.value.hint


def test_a_payload_without_contract_has_none_and_a_bad_one_is_not_overlooked() -> None:
    assert contract_of({}) is None
    assert contract_of({"effect_contract": {"kind": "none"}}) == parse_contract(
        full(no_writes=True)
    )
    with pytest.raises(CallboardError):
        contract_of({"effect_contract": None})


def test_rules_are_found_by_type() -> None:
    contract = parse_contract(full(rule(), rule(type="artifact", min=0)))
    found = contract.rule("artifact")
    assert found is not None
    assert (found.min, found.max) == (0, 1)
    assert contract.rule("comment") is None


def test_contract_vectors(vectors: Path | None) -> None:
    found = (
        [] if vectors is None else json.loads((vectors / "effect-contract.json").read_text("utf-8"))
    )
    for case in found:
        assert (contract_faults(case["contract"]) == []) is case["valid"], case["name"]
    assert vectors is None or len(found) > 10
