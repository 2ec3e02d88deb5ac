"""Completion: a Claim ends as terminal ownership of its Work.

Source: specification 1, §§7.14, 7.15. It says nothing about delivery; the barrier opens pending.
"""

from __future__ import annotations

from msgspec import structs

from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import (
    Context,
    claim_on,
    dispatch_of,
    require_open,
)
from callboard.board.protocol.operations import Completion
from callboard.errors import CallboardError


def apply_completion(projection: Projection, context: Context, operation: Completion) -> None:
    """Complete a Work through its open Claim and the group's bound run."""
    claim, work = claim_on(projection, operation.claim_id, operation.work_id)
    require_open(claim)
    found = (operation.dispatch_id, operation.claim_handle)
    if found != (claim.claim.dispatch_id, claim.claim.handle):
        raise CallboardError(
            "claim_mismatch",
            f"Claim {operation.claim_id} is {claim.claim.handle} of {claim.claim.dispatch_id}, "
            f"not {found[1]} of {found[0]}",
            "name the Claim's own dispatch and handle",
        )
    dispatch = dispatch_of(projection, operation.dispatch_id)
    run = dispatch.run
    if dispatch.released or run is None or run.run_id != operation.run_id:
        raise CallboardError(
            "run_binding_conflict",
            f"run {operation.run_id} is not the one bound to {operation.dispatch_id}",
            "only the bound run completes",
        )
    commit = context.commit
    projection.set_work(
        structs.replace(
            work,
            state="completed",
            barrier="pending",
            completion_id=commit.id,
            completed_at=context.at,
        )
    )
    projection.set_claim(structs.replace(claim, state="completed", terminal_commit_id=commit.id))
