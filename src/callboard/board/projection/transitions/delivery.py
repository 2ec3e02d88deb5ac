"""Result and DeliveryFailure: the two ways a completed Work's barrier is decided.

Source: specification 1, §7.15; wire-v3 §§6, 9. The first of them wins; neither reopens anything.
"""

from __future__ import annotations

from msgspec import UNSET, structs

from callboard.board.projection.entities import ClaimState, DispatchState, WorkState
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions import evidence as proof
from callboard.board.projection.transitions.context import (
    Context,
    check_bytes,
    claim_on,
    dispatch_of,
)
from callboard.board.protocol.contract import contract_of
from callboard.board.protocol.operations import DeliveryFailure, Evidence, Result
from callboard.canonical import same_value
from callboard.errors import CallboardError

_DELIVERY = frozenset({"delivery"})
_FAILURE = frozenset({"terminal_run", "reconciliation", "delivery"})


def apply_result(projection: Projection, context: Context, operation: Result) -> None:
    """Verify a delivery; successors that wait for nothing else become ready."""
    work, dispatch = _decided(projection, operation)
    if work.barrier == "verified" and same_value(work.result, operation.descriptor):
        return
    _require_pending(work)
    check_bytes(projection, operation.descriptor, "result_bytes")
    proof.check_evidence(
        projection, dispatch, operation.evidence, _DELIVERY, proof.DELIVERY_SOURCES
    )
    _check_run_named(dispatch, operation.evidence)
    if contract_of(work.work.payload) is None:
        raise CallboardError(
            "delivery_contract_required",
            f"Work {operation.work_id} states no effect contract, so nothing can be verified",
            'state one in the payload; {"kind":"none"} where it writes nothing',
        )
    projection.set_work(
        structs.replace(
            work,
            barrier="verified",
            result=operation.descriptor,
            result_commit_id=context.commit.id,
        )
    )
    for dependent in projection.dependents.get(operation.work_id, ()):
        state = projection.works[dependent]
        projection.set_work(structs.replace(state, blocked=state.blocked - 1))


def apply_delivery_failure(
    projection: Projection, context: Context, operation: DeliveryFailure
) -> None:
    """Give a delivery up after its run ended and its reconciliation is exhausted."""
    work, dispatch = _decided(projection, operation)
    if work.barrier == "failed" and work.disposition == operation.disposition:
        return
    _require_pending(work)
    evidence = operation.evidence
    proof.check_evidence(projection, dispatch, evidence, _FAILURE, proof.DELIVERY_SOURCES)
    proof.check_terminal(dispatch, evidence)
    _check_exhausted(projection, context, work, evidence)
    _check_disposition(operation)
    projection.set_work(
        structs.replace(
            work,
            barrier="failed",
            disposition=operation.disposition,
            failure_reason=operation.reason,
            failure_commit_id=context.commit.id,
        )
    )


def _check_exhausted(
    projection: Projection, context: Context, work: WorkState, evidence: Evidence
) -> None:
    """A delivery is given up after as many checks, or as long, as the policy says."""
    bounds = projection.pool(work.work.pool).reconciliation
    attempts = evidence.attempts if isinstance(evidence.attempts, int) else 0
    completed_at = work.completed_at if work.completed_at is not None else context.at
    waited = context.at - completed_at
    if attempts < bounds.max_attempts and waited < bounds.deadline_ms:
        raise CallboardError(
            "reconciliation_pending",
            f"delivery was checked {attempts} of {bounds.max_attempts} times over {waited} of "
            f"{bounds.deadline_ms} ms",
            "verify again, or wait for the deadline",
            {"attempts": attempts, "waited_ms": waited},
        )


def _check_disposition(operation: DeliveryFailure) -> None:
    evidence = operation.evidence
    effects = evidence.effects if isinstance(evidence.effects, str) else "unknown"
    if operation.disposition != effects:
        raise proof.invalid(
            f"disposition {operation.disposition!r} where the evidence says {effects!r}",
            "record what the evidence shows",
        )
    if effects == "none" and evidence.receipt is UNSET:
        raise proof.invalid(
            "no effects are claimed without a receipt that proves it",
            "without a receipt the effects are unknown",
        )


def _decided(
    projection: Projection, operation: Result | DeliveryFailure
) -> tuple[WorkState, DispatchState]:
    """The completed Work that the operation decides on, and the dispatch that completed it."""
    claim, work = claim_on(projection, operation.claim_id, operation.work_id)
    if work.state != "completed":
        _require_pending(work)
    _check_completion(claim, work, operation.completion_id)
    return work, dispatch_of(projection, claim.claim.dispatch_id)


def _require_pending(work: WorkState) -> None:
    if work.barrier != "pending":
        raise CallboardError(
            "barrier_closed",
            f"Work {work.work.work_id} is {work.state}, its delivery barrier is {work.barrier}",
            "a barrier is decided once, after Completion",
            {"state": work.state, "barrier": work.barrier},
        )


def _check_completion(claim: ClaimState, work: WorkState, completion_id: str) -> None:
    if work.claim_id != claim.claim.claim_id or work.completion_id != completion_id:
        raise CallboardError(
            "claim_mismatch",
            f"Work {work.work.work_id} was completed by Claim {work.claim_id} in commit "
            f"{work.completion_id}",
            "name the Completion that closed the Work",
        )


def _check_run_named(dispatch: DispatchState, evidence: Evidence) -> None:
    run = dispatch.run
    if evidence.run_id is not UNSET and (run is None or evidence.run_id != run.run_id):
        raise proof.invalid(
            f"delivery evidence names run {evidence.run_id}, which is not the bound one",
            "verify the bound run's own outputs",
        )
