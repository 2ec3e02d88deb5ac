"""Stages: the one word for how far a node, a Claim or a launch has come.

Source: specification 1, §§7.8, 7.13, 7.15. Read from the projection alone. What a host knows beside
the ledger, that a bound run has ended (`terminal`), is never said here: who can ask the host adds
it, and labels it as evidence.
"""

from __future__ import annotations

from typing import Literal, get_args

from callboard.board.projection.entities import ClaimState, DispatchState, WorkState
from callboard.board.projection.state import Projection

Stage = Literal[
    "waiting",
    "ready",
    "granted",
    "started",
    "uncertain",
    "unresolved",
    "bound",
    "terminal",
    "completed_pending",
    "verified",
    "failed",
    "cancelled",
]
STAGES: tuple[Stage, ...] = get_args(Stage)
LaunchStage = Stage | Literal["released"]

READY_REASONS = frozenset({"ready", "capacity_blocked", "grants_paused"})
"""The planner's reasons of available Work that has nothing of its own in its way."""

PHASES: dict[str, Stage] = {
    "reserved": "granted",
    "started": "started",
    # The marker stands and no run is bound; that there is none frees the place, and is no stage.
    "rejected": "started",
    "uncertain": "uncertain",
    "unresolved": "unresolved",
    "bound": "bound",
}
_BARRIERS: dict[str, Stage] = {
    "pending": "completed_pending",
    "verified": "verified",
    "failed": "failed",
}


def launch_stage(dispatch: DispatchState) -> LaunchStage:
    """How far a launch has come: as its phase, or `released`."""
    return "released" if dispatch.released else PHASES[dispatch.state]


def work_stage(projection: Projection, state: WorkState, reason: str) -> Stage:
    """How far a node has come; `reason` is the planner's for Work that is available."""
    if state.state == "available":
        return "ready" if reason in READY_REASONS else "waiting"
    if state.state == "claimed":
        claim = projection.claims[str(state.claim_id)]
        return PHASES[projection.dispatches[claim.claim.dispatch_id].state]
    if state.state == "completed":
        return _BARRIERS[state.barrier]
    return "cancelled"


def claim_stage(projection: Projection, claim: ClaimState) -> Stage:
    """How far one attempt has come: its launch while it is open, then what came of it."""
    if claim.state == "open":
        return PHASES[projection.dispatches[claim.claim.dispatch_id].state]
    if claim.state == "completed":
        return _BARRIERS[projection.works[claim.claim.work_id].barrier]
    return "cancelled"
