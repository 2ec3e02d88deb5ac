"""The one way to a handler: authority, contract and resource scope first, for every type alike.

Source: specification 1, §7.14 (the common gate before handlers). No handler is called from
anywhere else for an effect, and a new type cannot opt out.
"""

from __future__ import annotations

from callboard.board.outputs.authority import EffectContext, Place
from callboard.board.outputs.bounds import NOOP
from callboard.board.outputs.claims import Output
from callboard.board.outputs.descriptor import Entry, OwnEntry, entry_kind
from callboard.board.outputs.handlers.registry import handler_of
from callboard.board.outputs.resources import Reach, Target, check_target
from callboard.board.protocol.contract import contract_of
from callboard.errors import CallboardError


def entry_type(entry: Entry) -> str:
    """The output type of an entry."""
    return entry.output_type if isinstance(entry, OwnEntry) else entry_kind(entry)


def prepare(context: EffectContext, output: Output) -> Entry:
    """Prepare one output of an open Claim; the entry says what its effect will be."""
    context.require("open")
    handler = handler_of(output.type)
    _check_declared(context, output.type)
    foreseen = handler.foresee(context, output)
    if foreseen is not None:
        _check_target(context, foreseen)
    entry = handler.prepare(context, output)
    _check_scope(context, entry)
    return entry


def apply(context: EffectContext, entry: Entry) -> None:
    """Have one prepared effect of a completed Claim, then read it back."""
    context.require("completed")
    handler = handler_of(entry_type(entry))
    _check_declared(context, entry_type(entry))
    _check_scope(context, entry)
    handler.apply(context.place, entry)
    handler.verify(context.place, entry)


def verify(place: Place, entry: Entry) -> None:
    """Read one effect back, whoever had it; this needs no authority and has no effect."""
    handler_of(entry_type(entry)).verify(place, entry)


def _check_declared(context: EffectContext, output_type: str) -> None:
    contract = contract_of(context.payload)
    if contract is None or contract.rule(output_type) is None:
        raise CallboardError(
            "output_not_declared",
            f"the Work of Claim {context.place.claim_id} declares no {output_type}",
            "declare it in the plan's contract",
            {"type": output_type},
        )


def _check_scope(context: EffectContext, entry: Entry) -> None:
    target = handler_of(entry_type(entry)).scope(context, entry)
    if target is None and entry_type(entry) == NOOP:
        return
    if target is None:
        raise CallboardError(
            "effect_scope_denied",
            f"what a {entry_type(entry)} touches is not said",
            "its handler has to name a target; only a no-op touches nothing",
            {"type": entry_type(entry)},
        )
    _check_target(context, target)


def _check_target(context: EffectContext, target: Target) -> None:
    reach = Reach(
        effect_scope=context.effect_scope,
        run_id=context.run_id,
        payload=context.payload,
        subject=context.subject,
    )
    check_target(target.document(), reach)
