"""The board's five columns: where each Work stands for a person, and what is in its way.

Source: specification 1, §§7.13, 7.15. Readiness comes from the planner's own explanation; this
only sorts it. Stuck is what will not go on by itself: each such Work carries its reason, the
evidence and what to type next. How far each has come is told by `stages`.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from callboard.board.ledger.finish import ATTEMPTS_EXHAUSTED
from callboard.board.projection.entities import CONFLICTS, ClaimState, WorkState
from callboard.board.projection.lineage import Lineage
from callboard.board.projection.routes import INCOMPATIBLE, UNAVAILABLE
from callboard.board.projection.state import Projection
from callboard.board.reading import advice
from callboard.board.reading.attempts import attempts_by_work, run_facts
from callboard.board.reading.names import Names
from callboard.board.reading.pauses import pauses
from callboard.board.reading.stages import READY_REASONS, Stage, work_stage
from callboard.board.reading.view import Document, View, known
from callboard.board.scheduling.explanation import Explainer, Obstacle, Standing

Column = Literal["waiting", "ready", "running", "done", "stuck"]
COLUMNS: tuple[Column, ...] = ("waiting", "ready", "running", "done", "stuck")

_STUCK = (
    "dependency_failed",
    "dependency_delivery_failed",
    "external_unavailable",
    UNAVAILABLE,
    INCOMPATIBLE,
)
_RUNNING = {"reserved": "granted", "started": "launching", "bound": "running"}


@dataclass(frozen=True, slots=True)
class Placed:
    """One Work in its column. `evidence` are the facts behind the reason, `next` what to type;
    `since_ms` orders what runs and what is done."""

    state: WorkState
    column: Column
    reason: str
    since_ms: int | None = None
    evidence: Document = field(default_factory=dict)
    next: str | None = None


class Columns:
    """Places Work of a view; shared look-ups are made once, when first needed.

    `shown` is the Work whose submitted words may be told, all where it is not given (see `Names`).
    """

    def __init__(self, view: View, shown: Container[str] | None = None) -> None:
        self.view = view
        self._projection: Projection = view.projection
        self.names = Names(view.projection, shown)
        self.explainer = Explainer(view.projection, view.at_ms)

    def all(self) -> dict[Column, list[Placed]]:
        """Every Work, by column; oldest first, but in `done` the latest first."""
        found: dict[Column, list[Placed]] = {column: [] for column in COLUMNS}
        for state in self._projection.works.values():
            placed = self.place(state)
            found[placed.column].append(placed)
        for column in ("waiting", "ready", "stuck"):
            found[column].sort(key=lambda placed: placed.state.place)
        found["running"].sort(key=lambda placed: (placed.since_ms or 0, placed.state.place))
        found["done"].sort(key=lambda placed: (-(placed.since_ms or 0), placed.state.place))
        return found

    def work(self, work_id: str) -> WorkState:
        """The Work of an id that is on the board."""
        return self._projection.works[work_id]

    def place(self, state: WorkState) -> Placed:
        """Where one Work stands."""
        if state.state == "available":
            return self._available(state)
        if state.state == "claimed":
            return self._claimed(state)
        if state.state == "completed":
            return self._completed(state)
        return self._cancelled(state)

    def stage(self, placed: Placed) -> Stage:
        """How far a Work that was placed has come."""
        return work_stage(self._projection, placed.state, placed.reason)

    def _available(self, state: WorkState) -> Placed:
        standing = self.explainer.standing(state.work.work_id)
        blocking = next(
            (one for reason in _STUCK for one in standing.obstacles if one.reason == reason), None
        )
        if blocking is not None:
            return self._blocked(state, blocking)
        column: Column = "ready" if standing.reason in READY_REASONS else "waiting"
        return Placed(state, column, standing.reason, evidence=self._first_facts(standing))

    def _first_facts(self, standing: Standing) -> Document:
        return self.facts(standing.obstacles[0]) if standing.obstacles else {}

    def facts(self, obstacle: Obstacle) -> Document:
        """An obstacle as facts: the path in node keys, the time, the limit, the thing found."""
        found: Document = {}
        if obstacle.path:
            found["path"] = self.names.path(obstacle.path)
            if obstacle.path_length > len(obstacle.path):
                found["path_length"] = obstacle.path_length
            found["cause"] = self.names.label(obstacle.path[-1])
        return found | known(until_ms=obstacle.until_ms, limit=obstacle.limit, found=obstacle.found)

    def _blocked(self, state: WorkState, obstacle: Obstacle) -> Placed:
        evidence = self.facts(obstacle)
        if obstacle.path:
            cause = self._projection.works[obstacle.path[-1]]
            if self.names.is_shown(cause.work.work_id):
                evidence["cause_reason"] = cause.cancellation_reason or cause.failure_reason
            if (stand_in := self.lineage.latest(cause.work.work_id)) is not None:
                evidence["cause_replaced_by"] = self.names.label(stand_in.work.work_id)
        step = advice.for_obstacle(self._projection, self.names, self.lineage, state, obstacle)
        return Placed(state, "stuck", obstacle.reason, evidence=evidence, next=step)

    def _claimed(self, state: WorkState) -> Placed:
        claim = self._projection.claims[str(state.claim_id)]
        dispatch = self._projection.dispatches[claim.claim.dispatch_id]
        reason = _RUNNING.get(dispatch.state, f"launch_{dispatch.state}")
        evidence = run_facts(dispatch)
        since = dispatch.started_at if dispatch.started_at is not None else claim.at
        if dispatch.state == "bound":
            return Placed(state, "running", reason, since, evidence)
        if dispatch.state == "reserved" and self._projection.grants_paused:
            reason = "grants_paused"
            evidence["pause"] = self._pauses.get("grants")
        elif dispatch.state in ("reserved", "started"):
            bound = self._projection.pool(state.work.pool).reconciliation.deadline_ms
            if self.view.at_ms - since <= bound:
                return Placed(state, "running", reason, since, evidence)
            reason = "launch_overdue"
        elif dispatch.reason in CONFLICTS and dispatch.state != "rejected":
            reason = str(dispatch.reason)
        evidence["waited_ms"] = self.view.at_ms - since
        step = advice.for_launch(self._projection, dispatch)
        return Placed(state, "stuck", reason, since, evidence, step)

    def _completed(self, state: WorkState) -> Placed:
        work_id = state.work.work_id
        since = state.completed_at
        if state.barrier == "verified":
            return Placed(state, "done", "verified", since, {"commit_id": state.result_commit_id})
        evidence = self._last_run(state)
        if state.barrier == "failed":
            evidence |= {
                "failure": state.failure_reason,
                "effects": state.disposition,
                "commit_id": state.failure_commit_id,
                # A checkpoint keeps that it failed and what is known of its effects, not why.
                "before_checkpoint": True if state.failure_commit_id is None else None,
            }
            stand_in = self.lineage.replacement(work_id)
            if stand_in is not None:
                evidence["replaced_by"] = self.names.label(stand_in.work.work_id)
                return Placed(state, "done", "replaced", since, evidence)
            step = advice.for_failed_delivery(self.names, state)
            return Placed(state, "stuck", "delivery_failed", since, evidence, step)
        bound = self._projection.pool(state.work.pool).reconciliation.deadline_ms
        if since is None or self.view.at_ms - since <= bound:
            return Placed(state, "running", "verifying", since, evidence)
        evidence["waited_ms"] = self.view.at_ms - since
        return Placed(state, "stuck", "delivery_pending", since, evidence, advice.RECONCILE)

    def _cancelled(self, state: WorkState) -> Placed:
        reason = state.cancellation_reason or "cancelled"
        since = self._times.get(state.cancellation_commit_id or "")
        evidence: Document = {"commit_id": state.cancellation_commit_id}
        if reason != ATTEMPTS_EXHAUSTED:
            return Placed(state, "done", f"cancelled: {reason}", since, evidence)
        evidence |= {**self._last_run(state), "attempts": state.attempts}
        step = f"callboard show {self.names.typed(state.work.work_id)}"
        return Placed(state, "stuck", reason, since, evidence, step)

    def _last_run(self, state: WorkState) -> Document:
        claims = self.attempts.get(state.work.work_id)
        if not claims:
            return {}
        claim = claims[-1]
        dispatch = self._projection.dispatches[claim.claim.dispatch_id]
        return run_facts(dispatch) | known(last_claim=claim.cancellation_reason)

    @cached_property
    def lineage(self) -> Lineage:
        """Which Work stands in for which."""
        return Lineage(self._projection)

    @cached_property
    def attempts(self) -> dict[str, list[ClaimState]]:
        """Every Work that was ever granted, with its Claims in order of grant."""
        return attempts_by_work(self._projection)

    @cached_property
    def _pauses(self) -> Document:
        return pauses(self.view)

    @cached_property
    def _times(self) -> dict[str, int]:
        return {request.id: request.at for request in self._projection.requests.values()}
