"""Why a Work is where it is, in the planner's own terms.

Source: specification 1, §7.13; wire-v3 §6 (reasons per Work). It uses the planner's gates,
frontier and limits; it ranks nothing by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from callboard.board.projection.entities import WorkState
from callboard.board.projection.state import Projection
from callboard.board.scheduling.gates import gate_reason

READY = "ready"
_FINAL_REASONS = ("dependency_failed", "dependency_delivery_failed")
MAX_PATH = 20


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing in the way.

    `path` leads from the Work to the ancestor at fault, by Work ids; of a path of more than
    `MAX_PATH` steps the first ones and the last are given, `path_length` is that of the whole.
    """

    reason: str
    path: tuple[str, ...] = ()
    path_length: int = 0
    until_ms: int | None = None
    limit: str | None = None
    found: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a Work stands: its first reason, and every obstacle."""

    reason: str
    obstacles: tuple[Obstacle, ...] = ()


@dataclass(frozen=True, slots=True)
class _Fate:
    """What a Work does to its successors, and because of which of its own predecessors."""

    reason: str
    work_id: str
    cause: _Fate | None
    origin: str
    length: int

    @classmethod
    def of(cls, reason: str, work_id: str, cause: _Fate | None = None) -> _Fate:
        if cause is None:
            return cls(reason, work_id, None, work_id, 1)
        return cls(reason, work_id, cause, cause.origin, cause.length + 1)

    def obstacle(self, work_id: str) -> Obstacle:
        """The obstacle this is to the successor `work_id`."""
        path = [work_id]
        step: _Fate | None = self
        while step is not None and len(path) < MAX_PATH:
            path.append(step.work_id)
            step = step.cause
        if step is not None:
            path[-1] = self.origin
        return Obstacle(self.reason, tuple(path), self.length + 1)


@dataclass(slots=True)
class Explainer:
    """Explains Work of one projection at one time; shared ancestors are walked once."""

    projection: Projection
    at: int
    _fates: dict[str, _Fate | None] = field(default_factory=dict)

    def standing(self, work_id: str) -> Standing:
        """Why the Work has not been granted, or that it is ready or no longer waiting."""
        state = self.projection.works[work_id]
        if state.state != "available":
            return Standing(f"ownership_{state.state}")
        obstacles = self._obstacles(state)
        if not obstacles:
            return Standing(READY)
        return Standing(obstacles[0].reason, tuple(obstacles))

    def _obstacles(self, state: WorkState) -> list[Obstacle]:
        found = self._predecessors(state)
        for gate in state.gates:
            reason = gate_reason(self.projection, state.work.pool, gate, self.at)
            if reason is not None:
                resource = gate.resource
                kind = resource.kind.replace("_", " ")
                label = f"{kind} {resource.repository}#{resource.number}"
                found.append(Obstacle(reason, found=label))
        if state.retry_not_before > self.at:
            found.append(Obstacle("retry_delayed", until_ms=state.retry_not_before))
        found.extend(self._route(state))
        if not found:
            found.extend(self._capacity(state))
        return found

    def _route(self, state: WorkState) -> list[Obstacle]:
        """Whether the worker can be had as the Work was promised it (§7.10)."""
        lane = state.lane
        route = self.projection.pool_state(state.work.pool).routes[lane.profile]
        reason = lane.obstacle(route)
        if reason is None:
            return []
        return [Obstacle(reason, found=f"{lane.profile} at {(lane.ref or route.current)[:12]}")]

    def _capacity(self, state: WorkState) -> list[Obstacle]:
        if self.projection.grants_paused:
            return [Obstacle("grants_paused")]
        pool = self.projection.pool(state.work.pool)
        counts = self.projection.pool_state(state.work.pool)
        if counts.open_claims >= pool.logical_limit:
            return [Obstacle("capacity_blocked", limit="logical")]
        cap = pool.per_account_limit
        held = counts.open_by_key.get(state.work.fairness_key, 0)
        if isinstance(cap, int) and held >= cap:
            return [Obstacle("capacity_blocked", limit="account")]
        if counts.unreleased >= pool.native_limit:
            return [Obstacle("capacity_blocked", limit="native")]
        return []

    def _predecessors(self, state: WorkState) -> list[Obstacle]:
        found: list[Obstacle] = []
        if not state.blocked:
            return found
        for predecessor in state.work.predecessors:
            fate = self._fate(predecessor)
            if fate is not None:
                found.append(fate.obstacle(state.work.work_id))
        return sorted(found, key=_finality)

    def _fate(self, work_id: str) -> _Fate | None:
        """What a predecessor does to its successors; walked without recursion."""
        stack = [work_id]
        while stack:
            current = stack[-1]
            if current in self._fates:
                stack.pop()
                continue
            state = self.projection.works[current]
            own = _own_fate(state)
            if own is not None or state.barrier == "verified" or state.blocked == 0:
                waits = _Fate.of("dependency_wait", current)
                self._fates[current] = own or (None if state.barrier == "verified" else waits)
                stack.pop()
                continue
            ancestors = state.work.predecessors
            unknown = [one for one in ancestors if one not in self._fates]
            if unknown:
                stack.extend(unknown)
                continue
            self._fates[current] = self._inherited(current, ancestors)
            stack.pop()
        return self._fates[work_id]

    def _inherited(self, current: str, ancestors: list[str]) -> _Fate:
        fates = [fate for one in ancestors if (fate := self._fates[one]) is not None]
        for reason in _FINAL_REASONS:
            for fate in fates:
                if fate.reason == reason:
                    return _Fate.of(reason, current, fate)
        return _Fate.of("dependency_wait", current, fates[0] if fates else None)


def _finality(obstacle: Obstacle) -> int:
    """What can no longer pass comes first; the rest stays in edge order."""
    reason = obstacle.reason
    return _FINAL_REASONS.index(reason) if reason in _FINAL_REASONS else len(_FINAL_REASONS)


def _own_fate(state: WorkState) -> _Fate | None:
    work_id = state.work.work_id
    if state.state == "cancelled":
        return _Fate.of("dependency_failed", work_id)
    if state.barrier == "failed":
        return _Fate.of("dependency_delivery_failed", work_id)
    if state.barrier == "pending":
        return _Fate.of("dependency_result_unavailable", work_id)
    return None
