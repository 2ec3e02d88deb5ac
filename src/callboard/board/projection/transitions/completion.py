"""Completion: a Claim ends as terminal ownership of its Work.

Source: specification 1, §§7.14, 7.15. It says nothing about delivery; the barrier opens pending.
"""

from __future__ import annotations

from msgspec import structs

from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import Context, claim_on, dispatch_of
from callboard.board.protocol.operations import Actor, Completion
from callboard.errors import CallboardError


def apply_completion(projection: Projection, context: Context, operation: Completion) -> None:
    """Complete a Work through its open Claim and the group's bound run."""
    claim, work = claim_on(projection, operation.claim_id, operation.work_id)
    check_worker(projection, context.commit.actor, operation.dispatch_id)
    if claim.state != "open" or work.claim_id != operation.claim_id:
        raise CallboardError(
            "claim_closed",
            f"Claim {operation.claim_id} is {claim.state}",
            "a Claim ends once; see callboard trace",
            {"state": claim.state},
        )
    found = (operation.dispatch_id, operation.claim_handle)
    if found != (claim.claim.dispatch_id, claim.claim.handle):
        raise CallboardError(
            "claim_mismatch",
            f"Claim {operation.claim_id} is {claim.claim.handle} of {claim.claim.dispatch_id}, "
            f"not {found[1]} of {found[0]}",
            "name the Claim's own dispatch and handle",
        )
    run = dispatch_of(projection, operation.dispatch_id).run
    if run is None or run.run_id != operation.run_id:
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


def check_worker(projection: Projection, actor: Actor, dispatch_id: str) -> None:
    """Judge that a worker acts for the dispatch it is bound to (§7.8)."""
    state = dispatch_of(projection, dispatch_id)
    if actor.role != "worker":
        return
    if actor.dispatch_id != dispatch_id:
        raise CallboardError(
            "claim_scope_invalid",
            f"a worker of dispatch {actor.dispatch_id!r} may not act on {dispatch_id}",
            "a worker acts only within its own assignment",
        )
    run = state.run
    if state.state != "bound" or run is None:
        raise CallboardError(
            "run_unbound",
            f"dispatch {dispatch_id} is {state.state}, no run is bound to it",
            "the binding must be durable before the worker acts",
        )
    found = (actor.run_id, actor.workflow, actor.principal)
    if found != (run.run_id, run.workflow, run.principal):
        raise CallboardError(
            "run_binding_conflict",
            f"a worker with run, workflow, principal {found} is not the bound one",
            "only the bound run acts",
        )
