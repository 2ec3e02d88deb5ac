"""The ready frontier of one pool: which Work could be granted, by class and key, oldest first.

An index only: it is derived from the Work states and never decides anything. Retry delays are
kept as timers, so that moving the evaluation time costs what crosses it, not a scan.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from callboard.board.projection.entities import WorkState

Bucket = list[int]
"""Places of ready Work of one class and key, ascending."""


class Frontier:
    """Ready Work of a pool. `horizon` is the time up to which timers have been let in."""

    def __init__(self) -> None:
        self.buckets: dict[int, dict[str, Bucket]] = {}
        self.gated: dict[int, WorkState] = {}
        self.delayed = 0
        self._timers: list[tuple[int, int, int, str]] = []
        self._horizon = -1

    def enter(self, state: WorkState) -> None:
        """Let a ready Work in; gated Work is kept apart, its gates depend on the time."""
        work = state.work
        if state.gates:
            self.gated[state.place] = state
            return
        if state.retry_not_before > 0:
            insort(
                self._timers,
                (state.retry_not_before, state.place, work.priority, work.fairness_key),
            )
            if state.retry_not_before > self._horizon:
                self.delayed += 1
                return
        self._insert(work.priority, work.fairness_key, state.place)

    def leave(self, state: WorkState) -> None:
        """The inverse of `enter` for the same state."""
        work = state.work
        if state.gates:
            del self.gated[state.place]
            return
        if state.retry_not_before > 0:
            timer = (state.retry_not_before, state.place, work.priority, work.fairness_key)
            del self._timers[bisect_left(self._timers, timer)]
            if state.retry_not_before > self._horizon:
                self.delayed -= 1
                return
        self._remove(work.priority, work.fairness_key, state.place)

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

    def is_empty(self) -> bool:
        """Whether nothing is ready, neither now nor behind a timer or gate."""
        return not (self.buckets or self.gated or self.delayed)

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
