"""Replay: applies one commit after another to a projection, or refuses and leaves it as it was.

Source: specification 1, §§7.6, 7.17; wire-v3 §§6, 7. The same `apply` serves cold reading,
incremental reading and the check of a candidate before it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callboard.board.ledger import checkpoint
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
from callboard.board.projection.transitions.completion import apply_completion
from callboard.board.projection.transitions.context import Context, dispatch_of
from callboard.board.projection.transitions.control import apply_control, apply_policy
from callboard.board.projection.transitions.delivery import apply_delivery_failure, apply_result
from callboard.board.projection.transitions.deployment import apply_deployment, apply_priority
from callboard.board.projection.transitions.grant import apply_grant
from callboard.board.projection.transitions.launch import apply_dispatch, apply_release
from callboard.board.projection.transitions.linking import apply_issue_comment, apply_issue_link
from callboard.board.projection.transitions.observation import apply_observation
from callboard.board.projection.transitions.worker import check_worker
from callboard.board.protocol import commit as wire
from callboard.board.protocol import envelope
from callboard.board.protocol import operations as ops
from callboard.board.protocol.envelope import ReadLine
from callboard.board.scheduling.packing import BatchRequest, plan_batch
from callboard.canonical import encode_trusted, sha256_hex
from callboard.errors import CallboardError


def _nothing(_projection: Projection, _context: Context, _operation: ops.Checkpoint) -> None:
    """A checkpoint's state is taken over before its commit counts."""


_TRANSITIONS: dict[type[Any], Callable[[Projection, Context, Any], None]] = {
    ops.Checkpoint: _nothing,
    ops.Completion: apply_completion,
    ops.Result: apply_result,
    ops.DeliveryFailure: apply_delivery_failure,
    ops.Observation: apply_observation,
    ops.ClaimCancellation: apply_claim_cancellation,
    ops.WorkCancellation: apply_work_cancellation,
    ops.Dispatch: apply_dispatch,
    ops.Release: apply_release,
    ops.Control: apply_control,
    ops.Policy: apply_policy,
    ops.Deployment: apply_deployment,
    ops.WorkPriority: apply_priority,
    ops.IssueLink: apply_issue_link,
    ops.IssueComment: apply_issue_comment,
}
_ENDING = (wire.FinishRequest, wire.ReleaseRequest, wire.CancelClaimRequest)


def apply(projection: Projection, line: ReadLine) -> None:
    """Apply one commit as it was read.

    On a refusal the projection is as before. On success the last commit can still be taken back
    with `take_back` until the next one is applied.
    """
    projection.begin()
    try:
        _apply(projection, line)
    except BaseException:
        projection.journal.roll_back()
        raise


def take_back(projection: Projection) -> None:
    """Undo the last applied commit, once."""
    projection.journal.roll_back()


def commit_bytes(commit: wire.QueueCommit) -> bytes:
    """The commit's canonical line, newline included."""
    return encode_trusted(commit) + b"\n"


def _apply(projection: Projection, line: ReadLine) -> None:
    commit = line.commit
    envelope.check(commit, line.parameters)
    if isinstance(commit.request, wire.CheckpointRequest):
        _begin_at_checkpoint(projection, commit)
    else:
        _check_chain(projection, commit)
    _check_unique(projection, commit)
    context = Context(commit, projection.ordinal)
    journal = projection.journal
    journal.put(projection.commit_ids, commit.id, context.ordinal)
    projection.ledger_bytes += len(line.plain) + 1
    admitted, claims = _apply_operations(projection, context)
    if commit.policy_epoch != projection.policy_epoch:
        raise CallboardError(
            "policy_epoch_mismatch",
            f"the commit names policy epoch {commit.policy_epoch!r}, the board is in "
            f"{projection.policy_epoch!r}",
            "read the board again and decide under its policy",
        )
    if isinstance(commit.request, _ENDING):
        refuse_exhausted(projection, context)
    _check_operation_count(projection, commit)
    check_budget(projection, admission=bool(admitted or claims), operations=commit.operations)
    projection.tip = commit.id
    projection.last_at = commit.at
    if projection.repository is None:
        projection.repository = commit.actor.repository
    projection.counters.transactions += 1
    journal.put(projection.requests, commit.request.id, _request_state(line, claims))


def _check_chain(projection: Projection, commit: wire.QueueCommit) -> None:
    if commit.previous != projection.tip:
        raise CallboardError(
            "chain_broken",
            f"commit {commit.id!r} follows {commit.previous!r}, the tip is {projection.tip!r}",
            "each commit follows the one before it",
        )
    if projection.tip is None:
        _check_genesis(commit)
    elif projection.repository != commit.actor.repository:
        raise _other_repository(projection, commit)


def _other_repository(projection: Projection, commit: wire.QueueCommit) -> CallboardError:
    return CallboardError(
        "repository_mismatch",
        f"the actor is of repository {commit.actor.repository!r}, the board of "
        f"{projection.repository!r}",
        "a board belongs to the repository of its first commit",
    )


def _check_unique(projection: Projection, commit: wire.QueueCommit) -> None:
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


def _begin_at_checkpoint(projection: Projection, commit: wire.QueueCommit) -> None:
    """Take over the state of a checkpoint, which only a root can be (wire-v3 §8).

    Of the bytes that the state counts none are in this ledger; the commit's own line is.
    """
    if commit.previous is not None or projection.tip is not None:
        raise CallboardError(
            "checkpoint_misplaced",
            f"checkpoint {commit.id!r} follows {commit.previous or projection.tip!r}",
            "a checkpoint begins a ledger, and nothing stands before it there",
        )
    projection.take_over(checkpoint.read_root(commit))
    projection.ledger_bytes = 0
    if projection.repository != commit.actor.repository:
        raise _other_repository(projection, commit)


def _check_genesis(commit: wire.QueueCommit) -> None:
    """A ledger begins with one Policy: with the first Work, or (older ones) by itself."""
    role = commit.actor.role
    first, *rest = commit.operations
    if not isinstance(first, ops.Policy) or any(isinstance(one, ops.Policy) for one in rest):
        raise CallboardError(
            "policy_missing",
            "the first commit does not begin with exactly one Policy",
            "a ledger begins with a Policy",
        )
    submits = isinstance(commit.request, wire.SubmitRequest)
    if role not in (("producer", "dispatcher") if submits else ("administrator",)):
        raise CallboardError(
            "role_forbidden",
            f"a {role} may not begin a ledger with {envelope.kind_of(commit.request)}",
            "the first submission comes from a producer or a dispatcher",
        )
    if submits and not rest:
        raise CallboardError(
            "operation_forbidden",
            "the first submission brings no Work",
            "a policy alone is never written",
        )


def _apply_operations(projection: Projection, context: Context) -> tuple[int, list[ops.Claim]]:
    commit = context.commit
    works: list[tuple[int, ops.Work]] = []
    claims: list[ops.Claim] = []
    request = commit.request
    if commit.actor.role == "worker":
        check_worker(projection, commit)
    if isinstance(request, wire.FinishRequest):
        _check_finish(projection, context, request)
    elif isinstance(request, wire.ReleaseRequest):
        _check_release_scope(projection, commit)
    for index, operation in enumerate(commit.operations):
        transition = _TRANSITIONS.get(type(operation))
        if transition is not None:
            transition(projection, context, operation)
        elif isinstance(operation, ops.Work):
            works.append((index, operation))
        elif isinstance(operation, ops.Claim):
            claims.append(operation)
    projection.settle_routes()
    admitted = admit(projection, context, works) if works else 0
    if isinstance(commit.request, wire.DispatchNextRequest):
        _grant(projection, context, commit.request, claims)
    return admitted, claims


def _check_operation_count(projection: Projection, commit: wire.QueueCommit) -> None:
    limit = projection.policy.limits.operations
    if len(commit.operations) > limit:
        raise CallboardError(
            "operation_limit",
            f"the commit holds {len(commit.operations)} operations, the policy allows {limit}",
            "ask for less at once",
            {"count": len(commit.operations), "limit": limit},
        )


def _check_finish(projection: Projection, context: Context, request: wire.FinishRequest) -> None:
    expected = finish_operations(projection, request.parameters, context.at)
    if context.commit.operations != expected:
        raise CallboardError(
            "finish_mismatch",
            f"finish {request.id!r} publishes other operations than its outcome demands",
            "recompute them against the current tip",
        )


def _check_release_scope(projection: Projection, commit: wire.QueueCommit) -> None:
    """What a release cancels belongs to the group it releases."""
    release = commit.operations[-1]
    if not isinstance(release, ops.Release):
        return
    members = {
        member.work_id for member in dispatch_of(projection, release.dispatch_id).assignment.claims
    }
    for operation in commit.operations[:-1]:
        if getattr(operation, "work_id", None) not in members:
            raise CallboardError(
                "operation_forbidden",
                f"the release of {release.dispatch_id} cancels something outside that dispatch",
                "a release closes only its own members",
            )


def _grant(
    projection: Projection,
    context: Context,
    request: wire.DispatchNextRequest,
    claims: list[ops.Claim],
) -> None:
    """Verify that the Claims are the planner's, then take them in."""
    commit = context.commit
    plan = plan_batch(
        projection,
        BatchRequest.of(
            request.parameters,
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
    apply_grant(projection, context, claims, plan.assignments, plan.profiles, plan.clocks)


def _request_state(line: ReadLine, claims: list[ops.Claim]) -> RequestState:
    commit = line.commit
    request = commit.request
    parameters = request.parameters
    return RequestState(
        id=commit.id,
        request_id=request.id,
        kind=envelope.kind_of(request),
        fingerprint=request.fingerprint,
        parameters_digest=sha256_hex(line.parameters),
        actor=commit.actor,
        policy_epoch=commit.policy_epoch,
        at=commit.at,
        claims=tuple(claim.claim_id for claim in claims),
        works=(
            tuple(node.work_id for node in parameters.nodes)
            if isinstance(parameters, wire.SubmitParameters)
            else ()
        ),
        dispatch_parameters=(
            parameters if isinstance(parameters, wire.DispatchNextParameters) else None
        ),
    )
