"""Dispatch and Release: how a group's one launch stands, and when its reservation is freed.

Source: specification 1, §7.8 with its recovery table; wire-v3 §§6, 10. Uncertainty keeps the
reservation; only proof of no launch or of a finished run frees it.
"""

from __future__ import annotations

from msgspec import UNSET, structs

from callboard.board.projection.entities import DispatchState
from callboard.board.projection.reserve import lifecycle_limit
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions import evidence as proof
from callboard.board.projection.transitions.context import Context, dispatch_of
from callboard.board.protocol.operations import Dispatch, Release, Run
from callboard.board.protocol.scalars import is_github
from callboard.errors import CallboardError

_PRELAUNCH = frozenset({"prelaunch"})
_NONLAUNCH = frozenset({"nonlaunch"})
_TERMINAL = frozenset({"terminal_run"})
_RECONCILIATION = frozenset({"reconciliation"})
_PUBLISHER = frozenset({"trusted_publisher"})
_FOLLOWS = {
    "started": ("reserved",),
    "bound": ("started", "uncertain", "unresolved", "bound"),
    "rejected": ("started", "uncertain", "unresolved"),
    "uncertain": ("started", "uncertain"),
    "unresolved": ("started", "uncertain", "unresolved"),
}
"""The phases from which each step may be recorded."""


def apply_dispatch(projection: Projection, context: Context, operation: Dispatch) -> None:
    """Take in one launch step of a group."""
    state = dispatch_of(projection, operation.dispatch_id)
    _refuse_released(state)
    limit = lifecycle_limit(projection.pool(state.assignment.pool))
    if state.lifecycle_writes >= limit:
        raise CallboardError(
            "lifecycle_limit",
            f"dispatch {operation.dispatch_id} already has {limit} launch records",
            "only a Release with proof may still follow",
            {"limit": limit},
        )
    _refuse_misplaced(operation)
    _require(state, operation, _FOLLOWS[operation.state])
    after = state
    if operation.state == "started":
        after = _started(projection, context, state, operation)
    elif operation.state == "bound":
        after = _bound(projection, state, operation)
    elif operation.state == "rejected" and operation.evidence is UNSET:
        raise proof.invalid("a rejection needs evidence of no launch", "add the evidence")
    if operation.evidence is not UNSET:
        kinds, sources = _NONLAUNCH, proof.NONLAUNCH_SOURCES
        if operation.state != "rejected":
            kinds, sources = _RECONCILIATION, proof.ALL_SOURCES
        proof.check_evidence(projection, after, operation.evidence, kinds, sources)
    projection.set_dispatch(
        structs.replace(
            after,
            state=operation.state,
            reason=operation.reason if isinstance(operation.reason, str) else state.reason,
            lifecycle_writes=state.lifecycle_writes + 1,
            noted_id=context.commit.id,
        )
    )


def _refuse_released(state: DispatchState) -> None:
    if state.released:
        raise CallboardError(
            "dispatch_released",
            f"dispatch {state.assignment.dispatch_id} is already released",
            "nothing is left to record for it",
        )


def _require(state: DispatchState, operation: Dispatch, phases: tuple[str, ...]) -> None:
    if state.state not in phases:
        raise CallboardError(
            "dispatch_state_invalid",
            f"dispatch {operation.dispatch_id} is {state.state}, so it cannot become "
            f"{operation.state}",
            "it would have to be " + " or ".join(phases),
            {"state": state.state},
        )


_BELONGS_TO = {"sender": "started", "credential_principal": "started", "run": "bound"}


def _refuse_misplaced(operation: Dispatch) -> None:
    """Refuse a field that belongs to another step; evidence and a reason may stand anywhere."""
    for name, step in _BELONGS_TO.items():
        if operation.state != step and getattr(operation, name) is not UNSET:
            raise CallboardError(
                "record_invalid",
                f"a {operation.state} Dispatch carries {name!r}, which belongs to {step}",
                "leave the field out",
            )


def _started(
    projection: Projection, context: Context, state: DispatchState, operation: Dispatch
) -> DispatchState:
    if projection.grants_paused:
        raise CallboardError(
            "grants_paused",
            "grants are paused, so no launch starts",
            "callboard resume grants --reason CODE",
        )
    actor = context.commit.actor
    if actor.role != "dispatcher" or actor.workflow is UNSET or actor.run_id is UNSET:
        raise CallboardError(
            "role_forbidden",
            f"a start marker comes from a dispatcher with workflow and run, not from {actor.role}",
            "let the dispatching run record it",
        )
    if operation.sender != actor:
        raise CallboardError(
            "sender_mismatch",
            "the start marker's sender is not the actor who records it",
            "exactly the sender records the marker",
        )
    principal = operation.credential_principal
    pinned = state.profile.principal
    needed = pinned if pinned is not UNSET else principal
    if needed is UNSET or principal not in (UNSET, needed):
        raise _credential(operation, pinned)
    return structs.replace(
        state,
        sender=operation.sender,
        started_at=context.at,
        credential_principal=principal if isinstance(principal, str) else None,
    )


def _credential(operation: Dispatch, pinned: object) -> CallboardError:
    wanted = "a credential_principal" if pinned is UNSET else f"principal {pinned}"
    return CallboardError(
        "credential_mismatch",
        f"the start marker has credential_principal {operation.credential_principal!r}, "
        f"its profile needs {wanted}",
        "launch with the profile's own credential",
    )


def _bound(projection: Projection, state: DispatchState, operation: Dispatch) -> DispatchState:
    run = operation.run
    if run is UNSET:
        raise CallboardError("record_invalid", "a bound Dispatch names no run", "name the run")
    if state.run is not None and state.run != run:
        raise CallboardError(
            "run_binding_conflict",
            f"dispatch {operation.dispatch_id} is bound to run {state.run.run_id}, not to "
            f"{run.run_id}",
            "two runs appeared for one launch; settle it by hand, capacity stays reserved",
            {"bound": state.run.run_id, "found": run.run_id},
        )
    _check_run(projection, state, run)
    return structs.replace(state, run=run)


def _check_run(projection: Projection, state: DispatchState, run: Run) -> None:
    serving = projection.runs.get(run.run_id)
    if serving not in (None, state.assignment.dispatch_id):
        raise CallboardError(
            "run_binding_conflict",
            f"run {run.run_id} already serves dispatch {serving}",
            "one run carries one dispatch",
            {"dispatch_id": serving},
        )
    projection.journal.put(projection.runs, run.run_id, state.assignment.dispatch_id)
    profile = state.profile
    event = "workflow_dispatch" if is_github(profile.workflow) else "host_dispatch"
    found = (run.repository, run.workflow, run.ref, run.principal, run.event)
    wanted = (
        projection.repository,
        profile.workflow,
        profile.ref,
        state.principal,
        event,
    )
    if found != wanted:
        raise CallboardError(
            "run_binding_conflict",
            f"run {run.run_id} shows {found}, the dispatch needs {wanted}",
            "bind only a run of the approved profile",
        )


def apply_release(projection: Projection, context: Context, operation: Release) -> None:
    """Free a group's native reservation, once, on proof."""
    state = dispatch_of(projection, operation.dispatch_id)
    _refuse_released(state)
    if state.open_claims:
        raise CallboardError(
            "release_open_claims",
            f"dispatch {operation.dispatch_id} still has {state.open_claims} open Claims",
            "cancel them in the same commit",
            {"open_claims": state.open_claims},
        )
    evidence = operation.evidence
    if state.state == "reserved":
        proof.check_evidence(projection, state, evidence, _PRELAUNCH, _PUBLISHER)
    elif state.state == "bound":
        proof.check_evidence(projection, state, evidence, _TERMINAL, proof.HOST_SOURCES)
        proof.check_terminal(state, evidence)
    else:
        proof.check_evidence(projection, state, evidence, _NONLAUNCH, proof.NONLAUNCH_SOURCES)
    if evidence.kind != "terminal_run" and evidence.run_id is not UNSET:
        raise proof.invalid(
            f"evidence of no launch names a run, {evidence.run_id}",
            "where a run exists, prove that it ended",
        )
    projection.set_dispatch(
        structs.replace(
            state,
            released=True,
            released_at=context.at,
            conclusion=evidence.conclusion if isinstance(evidence.conclusion, str) else None,
        )
    )
