"""A Claim's outputs, first prepared, then published: on either side of its Completion.

Source: specification 1, §§7.14, 7.15. Before the Completion everything is judged and made durable,
so that what could fail does so while the Claim can still be retried; after it only refs are set.
"""

from __future__ import annotations

from dataclasses import replace

from callboard.board.outputs.authority import EffectContext
from callboard.board.outputs.bounds import NOOP, Bounds
from callboard.board.outputs.claims import ClaimOutputs, Refusal
from callboard.board.outputs.descriptor import Entry, check_size, describe
from callboard.board.outputs.handlers import gate
from callboard.board.outputs.prepared import read_prepared, write_prepared
from callboard.errors import CallboardError


def prepare_claim(context: EffectContext, claim: ClaimOutputs) -> ClaimOutputs:
    """Make a Claim that is to be completed ready for it; has no effect that anybody sees.

    Blobs are stored, the commit is judged, and a note of all outputs is kept under a ref. Call it
    before the finish is published. Where any output cannot be prepared the answer is the same
    Claim turned into cancelled, with the refusal. A cancelled Claim comes back as it is.
    """
    if claim.outcome != "completed":
        return claim
    _check_same(context, claim)
    entries: list[Entry] = []
    source = context.handle
    try:
        context.require("open")
        bounds = Bounds(context.payload, None)
        for output in claim.outputs:
            if output.type == NOOP and not bounds.declares(NOOP):
                # Word for the report alone.
                continue
            source = output.intent_id
            entries.append(gate.prepare(context, output))
        check_size(entries, context.result_bytes)
        if not _writes_nothing(context):
            write_prepared(context.repository, context.place.claim_id, describe(entries))
    except CallboardError as error:
        refusal = Refusal.of_host(error, source, claim.handle)
        refused = replace(claim, refusals=(*claim.refusals, refusal))
        return refused.cancelled("output_failed", f"{error.code}: {error.message}")
    return claim


def apply_claim(context: EffectContext) -> None:
    """Publish what was prepared for a Claim whose Completion is durable, and read it back.

    Safe to repeat, also by another process after a crash: every effect is a ref that is created
    for exactly one object and never moved. Raises `effects_unauthorized` before the Completion and
    once the delivery is decided, `delivery_unprepared`, or, after trying all of them,
    `effects_incomplete` with each output's refusal in `details`.
    """
    context.require("completed")
    prepared = read_prepared(context.repository, context.place.claim_id)
    if prepared is None:
        if _writes_nothing(context):
            return
        raise CallboardError(
            "delivery_unprepared",
            f"nothing was prepared for Claim {context.place.claim_id}",
            "its delivery cannot be made up for; the reconciler will give it up",
        )
    failed: list[CallboardError] = []
    for entry in prepared.outputs:
        try:
            gate.apply(context, entry)
        except CallboardError as error:
            failed.append(error)
    if failed:
        raise CallboardError(
            "effects_incomplete",
            f"{len(failed)} of {len(prepared.outputs)} outputs of Claim "
            f"{context.place.claim_id} were not delivered: {failed[0].message}",
            failed[0].hint,
            {"failed": [error.document() for error in failed]},
        )


def _writes_nothing(context: EffectContext) -> bool:
    return Bounds(context.payload, None).writes_nothing


def _check_same(context: EffectContext, claim: ClaimOutputs) -> None:
    found = (claim.handle, claim.claim_id, claim.work_id)
    wanted = (context.handle, context.place.claim_id, context.place.work_id)
    if found != wanted:
        raise CallboardError(
            "claim_scope_invalid",
            f"outputs of {found[0]} ({found[1]}) cannot be delivered for {wanted[0]} ({wanted[1]})",
            "a Claim's authority is never lent to another",
        )
