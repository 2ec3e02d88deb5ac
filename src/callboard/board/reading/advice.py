"""What to type next for a node that will not go on by itself.

Source: specification 1, §§7.8, 7.13, 7.15 (the last evidence and the next action of an operator).
Every answer is one command line that can be pasted, and none of them frees a place on a guess.
"""

from __future__ import annotations

from callboard.board.projection.entities import CONFLICTS, DispatchState, WorkState
from callboard.board.projection.lineage import Lineage
from callboard.board.projection.routes import INCOMPATIBLE, UNAVAILABLE
from callboard.board.projection.state import Projection
from callboard.board.reading.names import Names
from callboard.board.scheduling.explanation import Obstacle

RECONCILE = "callboard reconcile"
RESUME = "callboard resume grants --reason CODE"
_SHORT = 12


def for_launch(projection: Projection, dispatch: DispatchState) -> str:
    """The command for a launch that is late, or in doubt."""
    if dispatch.state == "reserved":
        return RESUME if projection.grants_paused else "callboard run"
    if dispatch.reason in CONFLICTS and dispatch.state in ("uncertain", "unresolved"):
        # The runs that were found have to be looked at first, and the trace names them.
        return f"callboard trace --dispatch {dispatch.assignment.dispatch_id}"
    return RECONCILE


def for_failed_delivery(names: Names, state: WorkState) -> str:
    """The command that replaces a node whose delivery was given up; only effects that are known to
    be absent need no verifier."""
    proof = "" if state.disposition == "none" else " --verifier NAME"
    return f"callboard replace {names.typed(state.work.work_id)}{proof}"


def for_obstacle(
    projection: Projection, names: Names, lineage: Lineage, state: WorkState, obstacle: Obstacle
) -> str:
    """The command for what keeps an available node from ever being granted."""
    if obstacle.path:
        return _past_the_cause(names, lineage, state, projection.works[obstacle.path[-1]])
    if obstacle.reason == INCOMPATIBLE:
        return _back_to_promise(projection, names, state)
    if obstacle.reason == UNAVAILABLE:
        return _back_in_service(projection, state)
    return f"callboard show {names.typed(state.work.work_id)}"


def _past_the_cause(names: Names, lineage: Lineage, state: WorkState, cause: WorkState) -> str:
    """What to type where a predecessor failed: replace it, or end what waits in vain."""
    if cause.barrier != "failed":
        return f"callboard show {names.typed(cause.work.work_id)}"
    if lineage.replacement(cause.work.work_id) is None:
        return for_failed_delivery(names, cause)
    return f"callboard cancel {names.typed(state.work.work_id)} --reason replaced"


def _back_in_service(projection: Projection, state: WorkState) -> str:
    """How a node's worker can be had again. Where the node follows its worker, HEAD's recipe or
    somebody's withdrawal is in the way, and a check of the policy tells which."""
    lane = state.lane
    if not lane.ref:
        return "callboard policy check"
    route = projection.pool_state(state.work.pool).routes[lane.profile]
    ref = lane.ref or route.current
    how = "--restore " if ref in route.revisions else ""
    return f"callboard deploy {lane.profile} --at {ref[:_SHORT]} {how}--reason CODE"


def _back_to_promise(projection: Projection, names: Names, state: WorkState) -> str:
    """What to type where the worker has left a node behind: the way back, or an end."""
    lane = state.lane
    route = projection.pool_state(state.work.pool).routes[lane.profile]
    kept = [
        ref
        for ref, revision in route.revisions.items()
        if revision.available and revision.contract == lane.contract
    ]
    if not kept:
        return f"callboard cancel {names.typed(state.work.work_id)} --reason worker_changed"
    return f"callboard deploy {lane.profile} --at {kept[-1][:_SHORT]} --reason keep_promise"
