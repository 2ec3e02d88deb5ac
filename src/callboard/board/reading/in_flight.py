"""What is in flight: the reservations and delivery barriers that have to be settled before a board
is drained.

Source: specification 1, §§7.8, 7.13, 7.15, 7.18. Facts of the ledger with the next command for
each; it judges no evidence, and what it lists is never a ground to free a place.
"""

from __future__ import annotations

from collections.abc import Mapping

from callboard.board.projection.entities import CONFLICTS, DispatchState, WorkState
from callboard.board.projection.exhaustion import spent_works
from callboard.board.reading import advice
from callboard.board.reading.attempts import launch_status
from callboard.board.reading.names import Names
from callboard.board.reading.pauses import pauses
from callboard.board.reading.stages import LaunchStage, launch_stage
from callboard.board.reading.view import Document, View, known

MAX_LEFT = 100
MAX_MEMBERS = 10
DRAIN = "callboard drain"


def in_flight(view: View, left: list[Document], *, admission: bool) -> Document:
    """Whether a board is drained: grants paused, with `admission` that too, and nothing `left`.

    `{drained, ending, paused, pauses, count, unresolved, left}`; `left` has at most `MAX_LEFT` of
    `count`. `ending` is `drained`, `checked` where it is not, or `snapshot` where it was: what a
    snapshot shows is over, and what there is now it cannot know.
    """
    projection = view.projection
    paused = {"admission": projection.admission_paused, "grants": projection.grants_paused}
    is_paused = projection.grants_paused and (projection.admission_paused or not admission)
    ending = "checked"
    if is_paused and not left:
        ending = "drained" if view.provenance == "live" else "snapshot"
    return {
        **view.stamp(),
        "drained": ending == "drained",
        "ending": ending,
        "paused": paused,
        "pauses": pauses(view),
        "count": len(left),
        "unresolved": sum(one["stage"] == "unresolved" for one in left),
        "left": left[:MAX_LEFT],
    }


class InFlight:
    """Describes what is in flight on one view; `findings` are a reconciler's words, by id."""

    def __init__(self, view: View, findings: Mapping[str, str] | None = None) -> None:
        self._projection = view.projection
        self._findings = findings or {}
        self.names = Names(view.projection)

    def all(self) -> list[Document]:
        """Every unreleased group, then every pending delivery, each kind oldest first."""
        projection = self._projection
        groups = [self.group(projection.dispatches[one]) for one in projection.open_dispatches]
        barriers = [self.delivery(projection.works[one]) for one in projection.pending_deliveries]
        return sorted(groups, key=_age) + sorted(barriers, key=_age)

    def group(self, state: DispatchState) -> Document:
        """One reservation: `{kind: run, stage, names, since_ms, …, next}`."""
        dispatch_id = state.assignment.dispatch_id
        stage = launch_stage(state)
        members = [member.work_id for member in state.assignment.claims]
        sender = state.sender
        return {
            "kind": "run",
            "stage": stage,
            "names": [self.names.label(work_id) for work_id in members[:MAX_MEMBERS]],
            "work_count": len(members),
            "open_claims": state.open_claims,
            "dispatch_id": dispatch_id,
            "launch": launch_status(state),
            "since_ms": state.granted_at if state.started_at is None else state.started_at,
            "pool": state.assignment.pool,
            **known(
                run_id=None if state.run is None else state.run.run_id,
                sender_run_id=None if sender is None else sender.run_id,
                principal=None if sender is None else sender.principal,
                launch_reason=state.reason,
                finding=self._findings.get(dispatch_id),
            ),
            "next": self._next(state, stage),
        }

    def _next(self, state: DispatchState, stage: LaunchStage) -> str:
        if stage == "unresolved" or (stage == "uncertain" and state.reason in CONFLICTS):
            return advice.for_launch(self._projection, state)
        if stage == "granted" and (spent := spent_works(self._projection, state)):
            names = " ".join(self.names.typed(work_id) for work_id in spent[:MAX_MEMBERS])
            return f"callboard cancel {names} --reason not_started"
        claims = (self._projection.claims[one.claim_id] for one in state.assignment.claims)
        if stage == "bound" and all(claim.state == "cancelled" for claim in claims):
            # Nothing that it could still deliver has an effect.
            return f"callboard stop --dispatch {state.assignment.dispatch_id}"
        return DRAIN

    def delivery(self, state: WorkState) -> Document:
        """One pending delivery: `{kind: delivery, stage, names, since_ms, …, next}`."""
        work_id = state.work.work_id
        claim = self._projection.claims[str(state.claim_id)].claim
        dispatch = self._projection.dispatches[claim.dispatch_id]
        return {
            "kind": "delivery",
            "stage": "completed_pending",
            "names": [self.names.label(work_id)],
            "work_count": 1,
            "work_id": work_id,
            "dispatch_id": claim.dispatch_id,
            "since_ms": state.completed_at or 0,
            "pool": state.work.pool,
            **known(
                run_id=None if dispatch.run is None else dispatch.run.run_id,
                finding=self._findings.get(work_id),
            ),
            "next": DRAIN,
        }


def _age(found: Document) -> tuple[int, str, str]:
    return int(found["since_ms"]), str(found["dispatch_id"]), str(found.get("work_id", ""))
