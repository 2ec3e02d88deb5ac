"""How far a worker's authority reaches: its own dispatch, its bound run, its own Claims.

Source: specification 1, §§7.8, 7.14; wire-v3 §3. It judges who acts; what is done is judged by the
transition of the operation.
"""

from __future__ import annotations

from msgspec import UNSET

from callboard.board.projection.entities import DispatchState
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import dispatch_of
from callboard.board.protocol import commit as wire
from callboard.board.protocol.operations import Actor, Dispatch
from callboard.errors import CallboardError


def check_worker(projection: Projection, commit: wire.QueueCommit) -> None:
    """Judge a commit whose actor is a worker."""
    actor = commit.actor
    if projection.tip is None:
        raise CallboardError("queue_missing", "there is no board yet", "a producer posts first")
    state = dispatch_of(projection, str(actor.dispatch_id))
    if actor.workflow != state.profile.workflow:
        raise _not_bound(actor, state)
    request = commit.request
    if isinstance(request, wire.DispatchRequest):
        _check_binding(commit)
        return
    run = state.run
    if state.released or state.state != "bound" or run is None:
        raise CallboardError(
            "run_unbound",
            f"dispatch {actor.dispatch_id!r} is {'released' if state.released else state.state}, "
            "no run of it may act",
            "the binding must be durable before the worker acts, and ends with the release",
        )
    if (actor.run_id, actor.principal) != (run.run_id, run.principal):
        raise _not_bound(actor, state)
    if isinstance(request, wire.FinishRequest):
        _check_finish(actor, request.parameters)
    elif isinstance(request, wire.SubmitRequest | wire.DispatchNextRequest):
        _check_member(projection, actor, state)


def _not_bound(actor: Actor, state: DispatchState) -> CallboardError:
    run = state.run
    return CallboardError(
        "run_binding_conflict",
        f"a worker of run {actor.run_id!r}, workflow {actor.workflow!r}, principal "
        f"{actor.principal} is not the one bound ({'none' if run is None else run.run_id})",
        "only the bound run acts",
    )


def _check_binding(commit: wire.QueueCommit) -> None:
    actor = commit.actor
    for operation in commit.operations:
        if not isinstance(operation, Dispatch) or operation.state != "bound":
            raise CallboardError(
                "role_forbidden", "a worker records only its own binding", "leave it to recovery"
            )
        run_id = None if operation.run is UNSET else operation.run.run_id
        if (operation.dispatch_id, run_id) != (actor.dispatch_id, actor.run_id):
            raise CallboardError(
                "run_binding_conflict",
                f"a worker of run {actor.run_id!r}, dispatch {actor.dispatch_id!r} binds "
                f"{run_id!r} to {operation.dispatch_id!r}",
                "a worker binds only its own run",
            )


def _check_finish(actor: Actor, asked: wire.FinishParameters) -> None:
    named = actor.claim_handle if isinstance(actor.claim_handle, str) else asked.claim_handle
    if actor.dispatch_id != asked.dispatch_id or named != asked.claim_handle:
        raise CallboardError(
            "claim_scope_invalid",
            f"a worker for {named!r} of {actor.dispatch_id!r} finishes {asked.claim_handle!r} of "
            f"{asked.dispatch_id!r}",
            "a worker finishes its own Claims, each for itself",
        )


def _check_member(projection: Projection, actor: Actor, state: DispatchState) -> None:
    """New requests of a worker hang on a completed member whose delivery is open (§7.14)."""
    for member in state.assignment.claims:
        if member.handle != actor.claim_handle:
            continue
        work = projection.works[member.work_id]
        if projection.claims[member.claim_id].state == "completed" and work.barrier == "pending":
            return
    raise CallboardError(
        "claim_scope_invalid",
        f"member {actor.claim_handle!r} of {actor.dispatch_id!r} is not completed with its "
        "delivery pending",
        "controls go out after the Claim's Completion and before its Result",
    )
