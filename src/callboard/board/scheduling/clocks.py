"""Deterministic virtual-pass service among siblings, in exact integer ticks.

Source: specification 1, §7.5; wire-v3 §6. A contest works on its own copy of a clock; only what
an admitted grant moved is handed back. Unselected passes are never recomputed.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from math import lcm

from callboard.board.projection.entities import Clock

DEFAULT_WEIGHT = 1


class Strides:
    """Ticks a served sibling moves by: Q / weight, Q the lcm of all configured weights."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self.scale = lcm(DEFAULT_WEIGHT, *weights.values())

    def of(self, sibling: str) -> int:
        """The stride; a sibling without a configured weight has weight 1."""
        return self.scale // self._weights.get(sibling, DEFAULT_WEIGHT)


class Contest:
    """The siblings that compete now. Ties go to the least name, by UTF-8 bytes."""

    def __init__(self, clock: Clock, strides: Strides, eligible: Collection[str]) -> None:
        self._strides = strides
        self._v = clock.v
        self._passes = dict(clock.passes)
        self._eligible = set(eligible)
        self._departed: set[str] = set()
        for sibling in self._eligible - clock.active:
            entry = clock.v + strides.of(sibling)
            self._passes[sibling] = max(self._passes.get(sibling, 0), entry)
        self._leader: tuple[str, int] | None = None
        self._heap: list[tuple[int, str]] | None = None

    @property
    def size(self) -> int:
        """How many siblings compete."""
        return len(self._eligible)

    def leader(self) -> tuple[str, int] | None:
        """The next sibling and its pass, without serving it."""
        if self._leader is None and self._eligible:
            self._leader = self._scan() if self._heap is None else self._top(self._heap)
        return self._leader

    def _scan(self) -> tuple[str, int]:
        """The first leader; most contests end with it, so no heap is made before."""
        least = min(map(self._passes.__getitem__, self._eligible))
        return min(name for name in self._eligible if self._passes[name] == least), least

    def _top(self, heap: list[tuple[int, str]]) -> tuple[str, int]:
        while heap[0][1] not in self._eligible:
            heapq.heappop(heap)
        passing, sibling = heap[0]
        return sibling, passing

    def serve(self) -> None:
        """Charge one grant to the leader."""
        leader = self.leader()
        if leader is None:
            raise ValueError("nobody competes")
        sibling, passing = leader
        self._v = passing
        self._passes[sibling] = passing + self._strides.of(sibling)
        if self._heap is None:
            self._heap = [(self._passes[name], name) for name in self._eligible]
            heapq.heapify(self._heap)
        else:
            heapq.heapreplace(self._heap, (self._passes[sibling], sibling))
        self._leader = None
        self._departed.clear()

    def withdraw(self, sibling: str) -> None:
        """Take out a sibling that the last grant made ineligible."""
        if sibling in self._eligible:
            self._eligible.discard(sibling)
            self._departed.add(sibling)
            self._leader = None

    def standing(self) -> list[tuple[str, int]]:
        """The competing siblings with their passes, best first; for explanations."""
        return sorted(
            ((name, self._passes[name]) for name in self._eligible),
            key=lambda one: (one[1], one[0]),
        )

    def clock(self) -> Clock:
        """The clock after the last served grant, active set included."""
        return Clock(self._v, self._passes, frozenset(self._eligible | self._departed))
