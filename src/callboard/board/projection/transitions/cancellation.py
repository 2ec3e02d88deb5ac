"""ClaimCancellation and WorkCancellation.

Source: specification 1, §§7.4, 7.14, 7.15; wire-v3 §6. Ending a Claim gives its Work back with a
delay; ending a Work is for good and leaves its successors blocked, not cancelled.
"""

from __future__ import annotations

from msgspec import UNSET, structs

from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import (
    Context,
    claim_on,
    require_open,
    work_of,
)
from callboard.board.protocol.operations import ClaimCancellation, Release, WorkCancellation
from callboard.errors import CallboardError


def apply_claim_cancellation(
    projection: Projection, context: Context, operation: ClaimCancellation
) -> None:
    """End an open Claim; its Work becomes available again, at its old place."""
    claim, work = claim_on(projection, operation.claim_id, operation.work_id)
    require_open(claim)
    pool = projection.pool(work.work.pool)
    earliest = _origin(context, claim.claim.dispatch_id) + pool.retry.backoff_ms
    if operation.retry_not_before < earliest:
        raise CallboardError(
            "retry_too_early",
            f"retry_not_before {operation.retry_not_before} is before {earliest}",
            f"the policy's backoff is {pool.retry.backoff_ms} ms",
            {"earliest_ms": earliest},
        )
    projection.set_work(
        structs.replace(
            work,
            state="available",
            claim_id=None,
            retry_not_before=operation.retry_not_before,
        )
    )
    projection.set_claim(
        structs.replace(
            claim,
            state="cancelled",
            terminal_commit_id=context.commit.id,
            cancellation_reason=operation.reason,
            retry_not_before=operation.retry_not_before,
        )
    )


def _origin(context: Context, dispatch_id: str) -> int:
    for operation in context.commit.operations:
        if isinstance(operation, Release) and operation.dispatch_id == dispatch_id:
            return operation.evidence.checked_at
    return context.at


def apply_work_cancellation(
    projection: Projection, context: Context, operation: WorkCancellation
) -> None:
    """End a Work that is not completed; a current Claim on it ends with it."""
    work = work_of(projection, operation.work_id)
    if work.state not in ("available", "claimed"):
        raise CallboardError(
            "work_closed",
            f"Work {operation.work_id} is {work.state}",
            "completed or cancelled Work is never cancelled",
            {"state": work.state},
        )
    if operation.claim_id is not UNSET and operation.claim_id != work.claim_id:
        raise CallboardError(
            "claim_mismatch",
            f"Work {operation.work_id} is held by {work.claim_id or 'nobody'}, not by "
            f"{operation.claim_id}",
            "look again: the owner changed",
        )
    commit_id = context.commit.id
    holder = work.claim_id
    projection.set_work(
        structs.replace(
            work,
            state="cancelled",
            claim_id=None,
            cancellation_reason=operation.reason,
            cancellation_commit_id=commit_id,
        )
    )
    if work.state == "claimed" and holder is not None:
        projection.set_claim(
            structs.replace(
                projection.claims[holder],
                state="cancelled",
                terminal_commit_id=commit_id,
                cancellation_reason=operation.reason,
            )
        )


def refuse_exhausted(projection: Projection, context: Context) -> None:
    """Refuse a commit that leaves exhausted Work open for another attempt (§7.4)."""
    for operation in context.commit.operations:
        if not isinstance(operation, ClaimCancellation):
            continue
        work = projection.works[operation.work_id]
        allowed = projection.pool(work.work.pool).retry.max_attempts
        if work.state == "available" and work.attempts >= allowed:
            raise CallboardError(
                "retry_exhausted",
                f"Work {operation.work_id} has used {work.attempts} of {allowed} attempts",
                "cancel the Work in the same commit",
                {"attempts": work.attempts},
            )
