"""The ready frontier of one pool: which Work could be granted, by class and key, oldest first.

An index only: it is derived from the Work states and routes and never decides anything. Retry
delays are kept as timers, so that moving the evaluation time costs what crosses it, not a scan.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping

from callboard.board.projection.entities import WorkState
from callboard.board.projection.routes import Lane, Route

Bucket = list[int]
"""Places of ready Work of one class and key, ascending."""


class _Members:
    """The ready Work of one lane, by place; it competes only while the lane is open."""

    __slots__ = ("is_open", "works")

    def __init__(self, is_open: bool) -> None:
        self.is_open = is_open
        self.works: dict[int, WorkState] = {}


class Frontier:
    """Ready Work of a pool, whose `routes` are the pool's own and say which lanes are open.

    `horizon` is the time up to which timers have been let in.
    """

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self._lanes: dict[str, dict[Lane, _Members]] = {}
        self.buckets: dict[int, dict[str, Bucket]] = {}
        self.gated: dict[int, WorkState] = {}
        self.delayed = 0
        self._timers: list[tuple[int, int, int, str]] = []
        self._horizon = -1

    def enter(self, state: WorkState) -> None:
        """Take in a ready Work; where its worker cannot run now it waits apart (§7.10)."""
        lane = state.lane
        lanes = self._lanes.setdefault(lane.profile, {})
        members = lanes.get(lane)
        if members is None:
            members = lanes[lane] = _Members(lane.obstacle(self._routes[lane.profile]) is None)
        members.works[state.place] = state
        if members.is_open:
            self._let_in(state)

    def leave(self, state: WorkState) -> None:
        """The inverse of `enter` for the same state."""
        lanes = self._lanes[state.lane.profile]
        members = lanes[state.lane]
        del members.works[state.place]
        if not members.works:
            del lanes[state.lane]
        if members.is_open:
            self._let_out(state)

    def reroute(self, profile: str) -> None:
        """Follow a route that has moved: open and shut the lanes it decides on."""
        route = self._routes[profile]
        for lane, members in self._lanes.get(profile, {}).items():
            is_open = lane.obstacle(route) is None
            if is_open == members.is_open:
                continue
            members.is_open = is_open
            for state in members.works.values():
                if is_open:
                    self._let_in(state)
                else:
                    self._let_out(state)

    def open_lanes(self) -> list[Lane]:
        """The lanes that ready Work competes in now, sorted."""
        found = (
            lane
            for lanes in self._lanes.values()
            for lane, members in lanes.items()
            if members.is_open
        )
        return sorted(found)

    def _let_in(self, state: WorkState) -> None:
        """Gated Work is kept apart, as its gates depend on the time."""
        if state.gates:
            self.gated[state.place] = state
            return
        if state.retry_not_before > 0:
            insort(
                self._timers,
                (state.retry_not_before, state.place, state.priority, state.work.fairness_key),
            )
            if state.retry_not_before > self._horizon:
                self.delayed += 1
                return
        self._insert(state.priority, state.work.fairness_key, state.place)

    def _let_out(self, state: WorkState) -> None:
        """The inverse of `_let_in`."""
        if state.gates:
            del self.gated[state.place]
            return
        if state.retry_not_before > 0:
            timer = (state.retry_not_before, state.place, state.priority, state.work.fairness_key)
            del self._timers[bisect_left(self._timers, timer)]
            if state.retry_not_before > self._horizon:
                self.delayed -= 1
                return
        self._remove(state.priority, state.work.fairness_key, state.place)

    def advance(self, at: int) -> None:
        """Set the evaluation time; it may also go back (readers accept any `at`)."""
        if at == self._horizon:
            return
        low, high = sorted((at, self._horizon))
        crossing = self._timers[
            bisect_right(self._timers, (low, 1 << 62)) : bisect_right(self._timers, (high, 1 << 62))
        ]
        promoted = at > self._horizon
        for _time, place, priority, key in crossing:
            if promoted:
                self._insert(priority, key, place)
                self.delayed -= 1
            else:
                self._remove(priority, key, place)
                self.delayed += 1
        self._horizon = at

    def _insert(self, priority: int, key: str, place: int) -> None:
        keys = self.buckets.setdefault(priority, {})
        bucket = keys.get(key)
        if bucket is None:
            keys[key] = [place]
        else:
            insort(bucket, place)

    def _remove(self, priority: int, key: str, place: int) -> None:
        keys = self.buckets[priority]
        bucket = keys[key]
        if len(bucket) == 1:
            del keys[key]
            if not keys:
                del self.buckets[priority]
        else:
            del bucket[bisect_left(bucket, place)]
