"""What a finish request must publish, computed the same way by writers and readers.

Source: specification 1, §§7.4, 7.14; wire-v3 §10 (finish).
"""

from __future__ import annotations

from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import claim_of, dispatch_of
from callboard.board.protocol.commit import AssignedClaim, FinishParameters
from callboard.board.protocol.operations import (
    ClaimCancellation,
    Completion,
    Operation,
    WorkCancellation,
)
from callboard.errors import CallboardError

WORKER_CANCELLED = "worker_cancelled"
ATTEMPTS_EXHAUSTED = "attempts_exhausted"


def member_of(projection: Projection, dispatch_id: str, handle: str) -> AssignedClaim:
    """The assigned member with that handle, or `claim_scope_invalid`."""
    members = dispatch_of(projection, dispatch_id).assignment.claims
    for member in members:
        if member.handle == handle:
            return member
    raise CallboardError(
        "claim_scope_invalid",
        f"dispatch {dispatch_id} has no member {handle!r}",
        "handles: " + ", ".join(member.handle for member in members),
    )


def finish_operations(
    projection: Projection, parameters: FinishParameters, at: int
) -> list[Operation]:
    """The operations of a finish at `at`: a Completion, or the Claim's cancellation."""
    member = member_of(projection, parameters.dispatch_id, parameters.claim_handle)
    if parameters.outcome == "cancelled":
        return cancel_claim_operations(projection, member.claim_id, WORKER_CANCELLED, at)
    run = dispatch_of(projection, parameters.dispatch_id).run
    if run is None:
        raise CallboardError(
            "run_unbound",
            f"no run is bound to dispatch {parameters.dispatch_id}",
            "the binding must be durable before the worker finishes",
        )
    return [
        Completion(
            work_id=member.work_id,
            claim_id=member.claim_id,
            dispatch_id=parameters.dispatch_id,
            claim_handle=member.handle,
            run_id=run.run_id,
            run_attempt=1,
        )
    ]


def cancel_claim_operations(
    projection: Projection, claim_id: str, reason: str, origin_ms: int
) -> list[Operation]:
    """A Claim's cancellation with the policy's backoff; its Work's too when it was the last."""
    claim = claim_of(projection, claim_id)
    work = projection.works[claim.claim.work_id]
    retry = projection.pool(work.work.pool).retry
    found: list[Operation] = [
        ClaimCancellation(
            work_id=work.work.work_id,
            claim_id=claim_id,
            reason=reason,
            retry_not_before=origin_ms + retry.backoff_ms,
        )
    ]
    if work.attempts >= retry.max_attempts:
        found.append(WorkCancellation(work_id=work.work.work_id, reason=ATTEMPTS_EXHAUSTED))
    return found
