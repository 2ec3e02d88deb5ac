"""Replay: applies one commit after another to a projection, or refuses and leaves it as it was.

Source: specification 1, §§7.6, 7.17; wire-v3 §§6, 7. The same `apply` serves cold reading,
incremental reading and the check of a candidate before it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callboard.board.ledger.budget import check_budget
from callboard.board.ledger.finish import finish_operations
from callboard.board.projection.entities import RequestState
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.admission import admit
from callboard.board.projection.transitions.cancellation import (
    apply_claim_cancellation,
    apply_work_cancellation,
    refuse_exhausted,
)
from callboard.board.projection.transitions.completion import apply_completion, check_worker
from callboard.board.projection.transitions.context import Context
from callboard.board.projection.transitions.control import apply_control, apply_policy
from callboard.board.projection.transitions.delivery import apply_delivery_failure, apply_result
from callboard.board.projection.transitions.grant import apply_grant
from callboard.board.projection.transitions.launch import apply_dispatch, apply_release
from callboard.board.projection.transitions.observation import apply_observation
from callboard.board.protocol import commit as wire
from callboard.board.protocol import envelope, identities
from callboard.board.protocol import operations as ops
from callboard.board.scheduling.packing import BatchRequest, plan_batch
from callboard.canonical import encode_trusted
from callboard.errors import CallboardError

_TRANSITIONS: dict[type[Any], Callable[[Projection, Context, Any], None]] = {
    ops.Completion: apply_completion,
    ops.Result: apply_result,
    ops.DeliveryFailure: apply_delivery_failure,
    ops.Observation: apply_observation,
    ops.ClaimCancellation: apply_claim_cancellation,
    ops.WorkCancellation: apply_work_cancellation,
    ops.Dispatch: apply_dispatch,
    ops.Release: apply_release,
    ops.Control: lambda projection, _context, control: apply_control(projection, control),
    ops.Policy: lambda projection, _context, policy: apply_policy(projection, policy),
}


def apply(projection: Projection, commit: wire.QueueCommit, line_bytes: int) -> None:
    """Apply a commit whose canonical line has `line_bytes` bytes, newline included.

    On a refusal the projection is as before. On success the last commit can still be taken back
    with `take_back` until the next one is applied.
    """
    projection.journal.forget()
    try:
        _apply(projection, commit, line_bytes)
    except BaseException:
        projection.journal.roll_back()
        raise


def take_back(projection: Projection) -> None:
    """Undo the last applied commit, once."""
    projection.journal.roll_back()


def commit_bytes(commit: wire.QueueCommit) -> bytes:
    """The commit's canonical line, newline included."""
    return encode_trusted(commit) + b"\n"


def _apply(projection: Projection, commit: wire.QueueCommit, line_bytes: int) -> None:
    envelope.check(commit)
    _check_chain(projection, commit)
    context = Context(commit, projection.ordinal)
    journal = projection.journal
    journal.put(projection.commit_ids, commit.id, context.ordinal)
    journal.assign(projection, "ledger_bytes", projection.ledger_bytes + line_bytes)
    admitted, claims = _apply_operations(projection, context)
    if commit.policy_epoch != projection.policy_epoch:
        raise CallboardError(
            "policy_epoch_mismatch",
            f"the commit names policy epoch {commit.policy_epoch!r}, the board is in "
            f"{projection.policy_epoch!r}",
            "read the board again and decide under its policy",
        )
    refuse_exhausted(projection, context)
    check_budget(projection, admission=bool(admitted or claims), operations=commit.operations)
    journal.assign(projection, "tip", commit.id)
    journal.assign(projection, "last_at", max(projection.last_at, commit.at))
    if projection.repository is None:
        journal.assign(projection, "repository", commit.actor.repository)
    counters = projection.counters
    journal.assign(counters, "transactions", counters.transactions + 1)
    journal.put(projection.requests, commit.request.id, _request_state(commit, claims))


def _check_chain(projection: Projection, commit: wire.QueueCommit) -> None:
    if commit.previous != projection.tip:
        raise CallboardError(
            "chain_broken",
            f"commit {commit.id!r} follows {commit.previous!r}, the tip is {projection.tip!r}",
            "each commit follows the one before it",
        )
    if commit.id in projection.commit_ids:
        raise CallboardError(
            "commit_duplicate", f"commit id {commit.id!r} is used twice", "ids are unique"
        )
    known = projection.requests.get(commit.request.id)
    if known is not None:
        raise CallboardError(
            "request_duplicate",
            f"request {commit.request.id!r} stands already, in commit {known.id!r}",
            "a request is committed once",
            {"commit_id": known.id},
        )
    genesis = isinstance(commit.operations[0], ops.Policy)
    if projection.tip is None and not genesis:
        raise CallboardError(
            "policy_missing",
            "the first commit installs no policy",
            "a ledger begins with a Policy",
        )
    if projection.tip is not None and genesis and isinstance(commit.request, wire.SubmitRequest):
        raise CallboardError(
            "operation_forbidden",
            "a submit brings a Policy although the board has one",
            "only the first submission carries the policy",
        )


def _apply_operations(projection: Projection, context: Context) -> tuple[int, list[ops.Claim]]:
    commit = context.commit
    works: list[tuple[int, ops.Work]] = []
    claims: list[ops.Claim] = []
    if isinstance(commit.request, wire.FinishRequest):
        _check_finish(projection, context, commit.request)
    for index, operation in enumerate(commit.operations):
        if isinstance(operation, ops.Work):
            works.append((index, operation))
        elif isinstance(operation, ops.Claim):
            claims.append(operation)
        else:
            _TRANSITIONS[type(operation)](projection, context, operation)
    admitted = admit(projection, context, works) if works else 0
    if isinstance(commit.request, wire.DispatchNextRequest):
        _grant(projection, context, commit.request, claims)
    return admitted, claims


def _check_finish(projection: Projection, context: Context, request: wire.FinishRequest) -> None:
    check_worker(projection, context.commit.actor, request.parameters.dispatch_id)
    handle = context.commit.actor.claim_handle
    if isinstance(handle, str) and handle != request.parameters.claim_handle:
        raise CallboardError(
            "claim_scope_invalid",
            f"actor of handle {handle!r} finishes {request.parameters.claim_handle!r}",
            "finish the Claim you act for",
        )
    expected = finish_operations(projection, request.parameters, context.at)
    if context.commit.operations != expected:
        raise CallboardError(
            "finish_mismatch",
            f"finish {request.id!r} publishes other operations than its outcome demands",
            "recompute them against the current tip",
        )


def _grant(
    projection: Projection,
    context: Context,
    request: wire.DispatchNextRequest,
    claims: list[ops.Claim],
) -> None:
    """Verify that the Claims are the planner's, then take them in."""
    commit = context.commit
    asked = request.parameters
    if isinstance(asked.worker_profiles, list):
        raise CallboardError(
            "unsupported_operation",
            "dispatch_next with worker_profiles is not supported by this version",
            "use a newer version of Callboard for this ledger",
        )
    plan = plan_batch(
        projection,
        BatchRequest(
            pool=asked.pool,
            max_claims=asked.max_claims,
            max_dispatches=asked.max_dispatches,
            max_bytes=asked.max_bytes,
            request_id=request.id,
            commit_id=commit.id,
            observed=len(commit.operations) - len(claims),
        ),
        context.at,
    )
    if not claims or plan.claims != claims:
        raise CallboardError(
            "selection_mismatch",
            f"request {request.id!r} grants {len(claims)} Claims that are not the fair prefix "
            f"of {len(plan.claims)}",
            "only the planner's next winners are granted, in its groups",
            {"expected": [claim.work_id for claim in plan.claims][:20], "reason": plan.stop.reason},
        )
    apply_grant(projection, context, claims, plan.assignments, plan.clocks)


def _request_state(commit: wire.QueueCommit, claims: list[ops.Claim]) -> RequestState:
    request = commit.request
    parameters = request.parameters
    return RequestState(
        id=commit.id,
        request_id=request.id,
        kind=envelope.kind_of(request),
        fingerprint=request.fingerprint,
        parameters_digest=identities.parameters_digest(parameters),
        actor=commit.actor,
        policy_epoch=commit.policy_epoch,
        at=commit.at,
        claims=tuple(claim.claim_id for claim in claims),
        works=tuple(
            operation.work_id for operation in commit.operations if isinstance(operation, ops.Work)
        ),
        dispatch_parameters=(
            parameters if isinstance(parameters, wire.DispatchNextParameters) else None
        ),
    )
