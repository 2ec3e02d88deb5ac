"""What a payload promises to deliver: its effect contract.

Source: specification 1, §7.15; wire-v3 §9. Pure judgement of the payload's own words; what a
worker really delivered is verified elsewhere.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from callboard.board.protocol.operations import Payload
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Identity, ReasonCode
from callboard.validate import Fault, faults_of, parse, refuse

MAX_OUTPUT_TYPES = 128
NO_WRITES: Payload = {"kind": "none"}


class Verification(Record, frozen=True, kw_only=True):
    """A registered verifier and what it must find."""

    verifier_id: ReasonCode
    expected: Payload


class OutputRule(Record, frozen=True, kw_only=True):
    """How many outputs of one type a Work delivers."""

    type: Identity
    min: Annotated[int, Meta(ge=0, le=128)]
    max: Annotated[int, Meta(ge=0, le=128)]
    verification: Verification | UnsetType = UNSET


class EffectContract(Record, frozen=True, kw_only=True):
    """The full form of a contract."""

    version: Literal[1]
    outputs: Annotated[list[OutputRule], Meta(max_length=MAX_OUTPUT_TYPES)]
    no_writes: bool | UnsetType = UNSET

    def rule(self, output_type: str) -> OutputRule | None:
        """The rule for one output type, if the contract has it."""
        return next((rule for rule in self.outputs if rule.type == output_type), None)


_NOTHING = EffectContract(version=1, outputs=[], no_writes=True)


def contract_faults(value: object, pointer: str = "") -> list[Fault]:
    """Every fault of a stated effect contract, in either of its two forms."""
    if value == NO_WRITES:
        return []
    if isinstance(value, dict) and "kind" in value:
        return [Fault(pointer, 'the short form is exactly {"kind":"none"}')]
    faults = faults_of(EffectContract, value, pointer)
    return faults or _relation_faults(_convert(value), pointer)


def parse_contract(value: object) -> EffectContract:
    """A stated contract, or `contract_invalid` with its faults."""
    faults = contract_faults(value)
    if faults:
        raise refuse("contract_invalid", "effect contract", faults, "correct the contract")
    return _NOTHING if value == NO_WRITES else _convert(value)


def contract_of(payload: Payload) -> EffectContract | None:
    """The contract a payload states, or None where it states none."""
    if "effect_contract" not in payload:
        return None
    return parse_contract(payload["effect_contract"])


def _convert(value: Any) -> EffectContract:
    return parse(EffectContract, value, what="effect contract", code="contract_invalid")


def _relation_faults(contract: EffectContract, pointer: str) -> list[Fault]:
    faults: list[Fault] = []
    seen: set[str] = set()
    for index, rule in enumerate(contract.outputs):
        place = f"{pointer}/outputs/{index}"
        if rule.min > rule.max:
            faults.append(Fault(f"{place}/min", f"{rule.min} is more than max {rule.max}"))
        if rule.type in seen:
            faults.append(Fault(f"{place}/type", f"{rule.type!r} stands twice"))
        seen.add(rule.type)
    if (contract.no_writes is True) == bool(contract.outputs):
        faults.append(Fault(f"{pointer}/no_writes", "is true exactly when there are no outputs"))
    return faults
