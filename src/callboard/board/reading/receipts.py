"""Receipts: what became of one request, as far as the board knows by now.

Source: specification 1, §7.13 (durable-to-human receipt). Derived and bounded; the limiting reason
is planned again at the prefix the request was decided on, never stored.
"""

from __future__ import annotations

from collections.abc import Iterable

from callboard.board.ledger.history import History
from callboard.board.projection.entities import (
    BINDING_CONFLICT,
    ClaimState,
    DispatchState,
    RequestState,
)
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import POSITION_BITS
from callboard.board.protocol import operations as ops
from callboard.board.protocol.commit import DispatchNextParameters, SubmitParameters
from callboard.board.reading.attempts import launch_status
from callboard.board.reading.columns import Columns
from callboard.board.reading.lines import trace_facts
from callboard.board.reading.names import Names
from callboard.board.reading.pauses import WHAT
from callboard.board.reading.replaying import decision_prefix
from callboard.board.reading.stages import claim_stage, launch_stage
from callboard.board.reading.view import Document, View, known
from callboard.board.scheduling.packing import BatchPlan, BatchRequest, plan_batch
from callboard.canonical import encode_trusted, sha256_hex
from callboard.errors import CallboardError

CLAIM_BUDGET = "claim_budget_reached"

# Worst first: what is uncertain is never hidden behind what went well (§7.13).
_WORST_FIRST = (
    BINDING_CONFLICT,
    "launch_unresolved",
    "launch_uncertain",
    "launch_rejected",
    "delivery_failed",
    "not_launched",
)
_BEST_LAST = ("reserved", "bound", "delivery_pending", "released")


def request_of(projection: Projection, request_id: str) -> RequestState:
    """The accepted request of that id, or `request_unknown`."""
    known = projection.requests.get(request_id)
    if known is None:
        raise CallboardError(
            "request_unknown",
            f"the board has no request {request_id[:80]!r}",
            "a request that was refused, or got nothing, leaves no trace, and one whose outcome is "
            "unknown may still arrive; those that stand are listed by: callboard ledger log",
        )
    return known


def receipt(view: View, request: RequestState) -> Document:
    """The receipt of any accepted request, by its kind."""
    if request.dispatch_parameters is not None:
        return grant_receipt(view, request, request.dispatch_parameters)
    if request.works:
        return submit_receipt(view, request)
    found = {**view.stamp(), **_head(view.history, request), "status": "committed"}
    return {**found, **_changes(view, request)}


def _changes(view: View, request: RequestState) -> Document:
    """What a person's own change says, by its kind; nothing for other kinds.

    Read from the record, so that a repetition tells the truth.
    """
    if request.kind not in ("cancel_work", "control", "deployment", "priority"):
        return {}
    try:
        commit = view.history.commit(view.projection.commit_ids[request.id])
    except CallboardError as error:
        if error.code != "history_unavailable":
            raise
        return _changes_by_state(view.projection, request)
    ended = [one for one in commit.operations if isinstance(one, ops.WorkCancellation)]
    if ended:
        works = [one.work_id for one in ended]
        return _cancelled(view.projection, works, ended[0].reason)
    first = commit.operations[0]
    if isinstance(first, ops.Control):
        if first.control in WHAT:
            return {"what": WHAT[first.control], "paused": first.value, "reason": first.reason}
        return {"generation": first.value, "reason": first.reason}
    if isinstance(first, ops.WorkPriority):
        return {"work_id": first.work_id, "priority": first.priority, "reason": first.reason}
    deployments = [_deployment(one) for one in commit.operations if isinstance(one, ops.Deployment)]
    return {"deployments": deployments} if deployments else {}


def _deployment(operation: ops.Deployment) -> Document:
    return {
        "pool": operation.pool,
        "worker_profile": operation.worker_profile,
        "from": operation.expected_ref,
        "ref": operation.profile.ref,
        "activated": operation.activate is not False,
        "available": operation.available,
        "reason": operation.reason,
    }


def _changes_by_state(projection: Projection, request: RequestState) -> Document:
    """The same as far as the state tells, where the record is out of reach."""
    ended = sorted(
        (one for one in projection.works.values() if one.cancellation_commit_id == request.id),
        key=lambda one: one.place,
    )
    if request.kind != "cancel_work" or not ended:
        return {"before_checkpoint": True}
    works = [one.work.work_id for one in ended]
    return _cancelled(projection, works, ended[0].cancellation_reason)


def _cancelled(projection: Projection, works: list[str], reason: str | None) -> Document:
    launched = _launched(projection)
    running = [one for one in works if one in launched]
    return {"works": works, "reason": reason, "still_running": running}


def _launched(projection: Projection) -> set[str]:
    """Work of which a run, launched already, still holds its place."""
    return {
        member.work_id
        for dispatch_id in projection.open_dispatches
        if (state := projection.dispatches[dispatch_id]).state != "reserved"
        for member in state.assignment.claims
    }


def submit_receipt(view: View, request: RequestState) -> Document:
    """Which nodes a submission stands for, and where each of them is now.

    Where its record lies before a checkpoint, out of reach, and named Work that stood already,
    only the nodes that it brought are listed, with `before_checkpoint`.
    """
    works, is_whole = _submitted(view, request)
    return {
        **view.stamp(),
        **_head(view.history, request),
        "status": "submitted",
        "nodes": node_documents(view, works, view.projection.commit_ids[request.id]),
        **({} if is_whole else {"before_checkpoint": True}),
    }


def _submitted(view: View, request: RequestState) -> tuple[Iterable[str], bool]:
    """The Work that a submission named, and whether that is all of it."""
    ordinal = view.projection.commit_ids[request.id]
    if ordinal >= view.history.base:
        return request.works, True
    brought = [view.projection.works[one].work for one in request.works]
    if sha256_hex(encode_trusted(SubmitParameters(nodes=brought))) == request.parameters_digest:
        return request.works, True
    try:
        commit = view.history.commit(ordinal)
    except CallboardError as error:
        if error.code != "history_unavailable":
            raise
        return request.works, False
    return [one.work_id for one in commit.operations if isinstance(one, ops.Work)], True


def node_documents(
    view: View, work_ids: Iterable[str], ordinal: int | None = None
) -> list[Document]:
    """Nodes as a receipt lists them; `stood_before` marks those that the commit at `ordinal` did
    not bring, and which it left as they were."""
    columns = Columns(view)
    found: list[Document] = []
    for work_id in work_ids:
        state = view.projection.works[work_id]
        placed = columns.place(state)
        found.append(
            {
                "name": columns.names.label(work_id),
                "work_ref": work_id,
                "graph_id": state.work.graph_id,
                "node_key": state.work.node_key,
                "column": placed.column,
                "stage": columns.stage(placed),
                "reason": placed.reason,
                "stood_before": state.place >> POSITION_BITS != ordinal,
            }
        )
    return found


def grant_receipt(view: View, request: RequestState, asked: DispatchNextParameters) -> Document:
    """What a dispatch request asked for, got, and what limited it.

    `observed_tip` is the commit up to which the launches were looked at: later ones may tell more.
    """
    projection = view.projection
    names = Names(projection)
    claims = [projection.claims[claim_id] for claim_id in request.claims]
    groups = {claim.claim.dispatch_id: None for claim in claims}
    dispatches = [projection.dispatches[dispatch_id] for dispatch_id in groups]
    partial = len(claims) < asked.max_claims
    found = {
        **view.stamp(),
        **_head(view.history, request),
        "observed_tip": projection.tip,
        "pool": asked.pool,
        "requested_claims": asked.max_claims,
        "granted_claims": len(claims),
        "requested_dispatches": asked.max_dispatches,
        "reserved_dispatches": len(dispatches),
        "bound_dispatches": sum(one.run is not None for one in dispatches),
        "completed_claims": sum(claim.state == "completed" for claim in claims),
        "released_dispatches": sum(one.released for one in dispatches),
        "status": _overall(projection, dispatches, partial),
        "grant_status": "partial_batch" if partial else "granted",
        "limiting_reason": CLAIM_BUDGET,
        "claims": [_claim(view.projection, names, claim) for claim in claims],
        "dispatches": [_dispatch(one) for one in dispatches],
    }
    if partial:
        found |= _limited_by(view.history, request, asked)
    return found


def _limited_by(history: History, request: RequestState, asked: DispatchNextParameters) -> Document:
    try:
        stop = replan(history, request, asked).stop
    except CallboardError as error:
        if error.code != "history_unavailable":
            raise
        return {"limiting_reason": error.code}
    return {"limiting_reason": stop.reason, **known(limit=stop.limit)}


def replan(history: History, request: RequestState, asked: DispatchNextParameters) -> BatchPlan:
    """The request's batch, planned again where it was decided."""
    before, commit = decision_prefix(history, request.id)
    return plan_batch(
        before,
        BatchRequest.of(
            asked,
            request_id=request.request_id,
            commit_id=request.id,
            observed=sum(isinstance(one, ops.Observation) for one in commit.operations),
        ),
        commit.at,
    )


def _head(history: History, request: RequestState) -> Document:
    return {
        "request_id": request.request_id,
        "kind": request.kind,
        "source_commit": history.previous(request.id),
        "commit_id": request.id,
        "policy_epoch": request.policy_epoch,
        "at": request.at,
        **_trace(history, request),
    }


def _trace(history: History, request: RequestState) -> Document:
    try:
        return trace_facts(history.commit(history.projection.commit_ids[request.id]))
    except CallboardError as error:
        if error.code != "history_unavailable":
            raise
        return {"trace": error.code}


def _overall(projection: Projection, dispatches: list[DispatchState], partial: bool) -> str:
    statuses = {_outcome(projection, one) for one in dispatches}
    for status in _WORST_FIRST:
        if status in statuses:
            return status
    if partial:
        return "partial_batch"
    for status in _BEST_LAST:
        if status in statuses:
            return "granted" if status == "reserved" else status
    return "granted"


def _outcome(projection: Projection, state: DispatchState) -> str:
    """How a launch stands as a part of its batch. A marker without a binding is a doubt there, as
    nothing shows yet that a run began; and of a place that is free, what came of it."""
    if state.state == "started" and not state.released:
        return "launch_uncertain"
    if not state.released:
        return launch_word(state)
    if state.run is None:
        return "not_launched"
    works = [projection.works[one.work_id] for one in state.assignment.claims]
    claims = [projection.claims[one.claim_id] for one in state.assignment.claims]
    barriers = {
        work.barrier
        for work, claim in zip(works, claims, strict=True)
        if claim.state == "completed" and work.claim_id == claim.claim.claim_id
    }
    if "failed" in barriers:
        return "delivery_failed"
    return "delivery_pending" if "pending" in barriers else "released"


def launch_word(state: DispatchState) -> str:
    """The launch's own word, but of runs that contradict each other, that they do."""
    status = launch_status(state)
    is_doubt = status in ("launch_uncertain", "launch_unresolved")
    return BINDING_CONFLICT if is_doubt and state.reason == BINDING_CONFLICT else status


def _claim(projection: Projection, names: Names, claim: ClaimState) -> Document:
    work = projection.works[claim.claim.work_id].work
    return {
        "name": names.label(work.work_id),
        "claim_ref": claim.claim.claim_id,
        "commit_id": claim.commit_id,
        "work_ref": work.work_id,
        "node_key": work.node_key,
        "dispatch_id": claim.claim.dispatch_id,
        "handle": claim.claim.handle,
        "finish": claim.state,
        "stage": claim_stage(projection, claim),
    }


def _dispatch(state: DispatchState) -> Document:
    return {
        "dispatch_id": state.assignment.dispatch_id,
        "claim_refs": [member.claim_id for member in state.assignment.claims],
        "worker_profile": state.assignment.worker_profile,
        "status": launch_word(state),
        "stage": launch_stage(state),
        "run_id": None if state.run is None else state.run.run_id,
        **known(reason=state.reason),
    }


def no_write(view: View, request_id: str, reason: str, details: Document) -> Document:
    """The answer to a request for which nothing was written, with the reason as its status."""
    return {
        **view.stamp(),
        "request_id": request_id,
        "source_commit": view.projection.tip,
        "commit_id": None,
        "policy_epoch": view.projection.policy_epoch,
        "status": reason,
        "replayed": False,
        "details": details,
    }


def no_grant(asked: DispatchNextParameters, answer: Document) -> Document:
    """The receipt of a dispatch request that got nothing; `answer` is that of `no_write`."""
    return {
        **answer,
        "kind": "dispatch_next",
        "pool": asked.pool,
        "requested_claims": asked.max_claims,
        "granted_claims": 0,
        "requested_dispatches": asked.max_dispatches,
        "reserved_dispatches": 0,
        "grant_status": "nothing_granted",
        "limiting_reason": answer["status"],
        "claims": [],
        "dispatches": [],
    }
