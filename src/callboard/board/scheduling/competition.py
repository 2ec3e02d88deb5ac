"""Who competes in one pool at one time, on a cheap overlay over the projection's frontier.

Source: specification 1, §7.3. The overlay remembers what the batch in the making has taken; it
never copies the frontier and never lets packing change the competition.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass

from callboard.board.projection.entities import Clock, PoolClocks, WorkState
from callboard.board.projection.frontier import Bucket
from callboard.board.projection.state import Projection
from callboard.board.scheduling.clocks import Contest, Strides
from callboard.board.scheduling.gates import open_observations


@dataclass(frozen=True, slots=True)
class Stop:
    """Why nobody is next: a stable reason code, with the limit that was hit where one was."""

    reason: str
    limit: str | None = None


@dataclass(frozen=True, slots=True)
class Winner:
    """The next Work and the comparison that chose it; passes in ticks, None where unused."""

    state: WorkState
    observations: list[str]
    basis: tuple[str, ...]
    class_pass: int | None
    key_pass: int

    @property
    def priority(self) -> int:
        return self.state.work.priority

    @property
    def key(self) -> str:
        return self.state.work.fairness_key


class Competition:
    """The eligible Work of a pool at `at`, served one admitted winner after the other."""

    def __init__(self, projection: Projection, pool: str, at: int) -> None:
        self._projection = projection
        self._at = at
        self._policy = projection.policy
        self._pool = projection.pool(pool)
        self._counts = projection.pool_state(pool)
        frontier = self._counts.frontier
        frontier.advance(at)
        self._buckets = frontier.buckets
        self._gated: dict[tuple[int, str], Bucket] = {}
        self._bound: dict[int, list[str]] = {}
        for place, state in frontier.gated.items():
            self._let_in_gated(place, state)
        self._cursors: dict[tuple[int, str], int] = {}
        self._merged: dict[tuple[int, str], Bucket] = {}
        self._granted = 0
        self._granted_by_key: dict[str, int] = {}
        self._clocks = projection.clocks.get(pool, PoolClocks())
        self._class_contest: Contest | None = None
        self._key_contests: dict[int, Contest] = {}
        self._served: set[int] = set()
        self._strict = self._policy.mode == "strict-priority"
        self._key_strides = Strides(self._policy.accounting_weights)

    def _let_in_gated(self, place: int, state: WorkState) -> None:
        if state.retry_not_before > self._at:
            return
        observations = open_observations(self._projection, state, self._at)
        if observations is None:
            return
        self._bound[place] = observations
        slot = (state.work.priority, state.work.fairness_key)
        insort(self._gated.setdefault(slot, []), place)

    def next(self) -> Winner | Stop:
        """The next winner, or why there is none; changes nothing."""
        if self._projection.grants_paused:
            return Stop("grants_paused")
        if self._counts.available <= self._granted:
            return Stop("no_work")
        candidates = self._slots()
        if not candidates:
            return Stop("no_eligible_work")
        if self._counts.open_claims + self._granted >= self._pool.logical_limit:
            return Stop("capacity_blocked", "logical")
        classes = self._eligible_classes()
        if not classes:
            return Stop("capacity_blocked", "account")
        priority, class_pass = self._leading_class(classes)
        contest = self._keys_of(priority)
        leader = contest.leader()
        assert leader is not None
        key, key_pass = leader
        place = self._bucket(priority, key)[self._cursors.get((priority, key), 0)]
        return Winner(
            state=self._projection.works[self._projection.by_place[place]],
            observations=self._bound.get(place, []),
            basis=self._basis(classes, contest, key),
            class_pass=class_pass,
            key_pass=key_pass,
        )

    def _basis(self, classes: list[int], contest: Contest, key: str) -> tuple[str, ...]:
        if len(classes) == 1 and contest.size == 1 and key == "":
            return ("fifo_default",)
        return ("priority_class" if self._strict else "weighted_class", "weighted_key")

    def _slots(self) -> list[int]:
        """Priorities with Work that only capacity could still hold back."""
        found = [
            priority
            for priority, keys in self._buckets.items()
            if any(self._left(priority, key) for key in keys)
        ]
        found.extend(priority for priority, key in self._gated if self._left(priority, key))
        return found

    def _left(self, priority: int, key: str) -> bool:
        return len(self._bucket(priority, key)) > self._cursors.get((priority, key), 0)

    def _bucket(self, priority: int, key: str) -> Bucket:
        slot = (priority, key)
        plain = self._buckets.get(priority, {}).get(key, [])
        if slot not in self._gated:
            return plain
        merged = self._merged.get(slot)
        if merged is None:
            merged = self._merged[slot] = sorted([*plain, *self._gated[slot]])
        return merged

    def _competes(self, priority: int, key: str) -> bool:
        cap = self._pool.per_account_limit
        if isinstance(cap, int):
            outstanding = self._counts.open_by_key.get(key, 0) + self._granted_by_key.get(key, 0)
            if outstanding >= cap:
                return False
        return self._left(priority, key)

    def _keys(self, priority: int) -> list[str]:
        names = dict.fromkeys(self._buckets.get(priority, {}))
        names.update(dict.fromkeys(key for one, key in self._gated if one == priority))
        return [key for key in names if self._competes(priority, key)]

    def _eligible_classes(self) -> list[int]:
        priorities = set(self._buckets) | {priority for priority, _key in self._gated}
        return sorted(
            priority
            for priority in priorities
            if (
                self._key_contests[priority].leader() is not None
                if priority in self._key_contests
                else self._any_key(priority)
            )
        )

    def _any_key(self, priority: int) -> bool:
        if any(self._competes(priority, key) for key in self._buckets.get(priority, ())):
            return True
        return any(one == priority and self._competes(one, key) for one, key in self._gated)

    def _leading_class(self, classes: list[int]) -> tuple[int, int | None]:
        if self._strict:
            return classes[0], None
        if self._class_contest is None:
            weights = {str(n): w for n, w in enumerate(self._policy.class_weights, start=1)}
            self._class_contest = Contest(
                self._clocks.classes, Strides(weights), [str(priority) for priority in classes]
            )
        leader = self._class_contest.leader()
        assert leader is not None
        return int(leader[0]), leader[1]

    def _keys_of(self, priority: int) -> Contest:
        contest = self._key_contests.get(priority)
        if contest is None:
            clock = self._clocks.keys.get(priority, Clock())
            contest = Contest(clock, self._key_strides, self._keys(priority))
            self._key_contests[priority] = contest
        return contest

    def serve(self, winner: Winner) -> None:
        """Admit the winner that `next` just gave: charge it and let the competition go on."""
        priority, key = winner.priority, winner.key
        self._keys_of(priority).serve()
        if self._class_contest is not None:
            self._class_contest.serve()
        self._served.add(priority)
        slot = (priority, key)
        self._cursors[slot] = self._cursors.get(slot, 0) + 1
        self._granted += 1
        self._granted_by_key[key] = self._granted_by_key.get(key, 0) + 1
        for other, contest in self._key_contests.items():
            if not self._competes(other, key):
                contest.withdraw(key)
        if self._class_contest is not None:
            for other in (1, 2, 3, 4, 5):
                if not self._has_leader(other):
                    self._class_contest.withdraw(str(other))

    def _has_leader(self, priority: int) -> bool:
        contest = self._key_contests.get(priority)
        return self._any_key(priority) if contest is None else contest.leader() is not None

    def standing(self) -> dict[str, list[tuple[str, int]]]:
        """Passes of the classes and, per touched class, of its keys; for explanations."""
        found = {str(one): contest.standing() for one, contest in self._key_contests.items()}
        if self._class_contest is not None:
            found["classes"] = self._class_contest.standing()
        return found

    def eligible(self) -> dict[int, dict[str, int]]:
        """How much Work competes now, per class and key; for explanations."""
        found: dict[int, dict[str, int]] = {}
        for priority in self._eligible_classes():
            found[priority] = {
                key: len(self._bucket(priority, key)) - self._cursors.get((priority, key), 0)
                for key in sorted(self._keys(priority))
            }
        return found

    def clocks(self) -> PoolClocks:
        """The pool's clocks after the served winners; untouched sets keep theirs."""
        keys = dict(self._clocks.keys)
        for priority in self._served:
            keys[priority] = self._key_contests[priority].clock()
        classes = self._clocks.classes
        if self._class_contest is not None and self._served:
            classes = self._class_contest.clock()
        return PoolClocks(classes, keys)
