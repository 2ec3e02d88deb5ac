"""Who competes in one pool at one time, on a cheap overlay over the projection's frontier.

Source: specification 1, §7.3. The overlay remembers what the batch in the making has taken; it
never copies the frontier and never lets packing change the competition.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Mapping
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
        return self.state.priority

    @property
    def key(self) -> str:
        return self.state.work.fairness_key


class Competition:
    """The eligible Work of a pool at `at`, served one admitted winner after the other.

    Only Work of the `profiles` given competes, of all where none are (§7.10: what a caller may
    not launch waits uncharged). A `preview` says who would be next if grants were not paused and
    a slot were free; what it yields is for people and is never granted.
    """

    def __init__(
        self,
        projection: Projection,
        pool: str,
        at: int,
        *,
        profiles: Collection[str] | None = None,
        preview: bool = False,
    ) -> None:
        self._projection = projection
        self._at = at
        self._preview = preview
        self._policy = projection.policy
        self._pool = projection.pool(pool)
        self._counts = projection.pool_state(pool)
        frontier = self._counts.frontier
        frontier.advance(at)
        self._profiles = profiles
        self._buckets = frontier.buckets if profiles is None else self._approved(frontier.buckets)
        self._gated: dict[tuple[int, str], Bucket] = {}
        self._bound: dict[int, list[str]] = {}
        for place, state in frontier.gated.items():
            self._let_in_gated(place, state)
        self._names = self._competing_names()
        self._cursors: dict[tuple[int, str], int] = {}
        self._spent: dict[int, int] = {}
        self._merged: dict[tuple[int, str], Bucket] = {}
        self._granted = 0
        self._granted_by_key: dict[str, int] = {}
        self._clocks = projection.clocks.get(pool, PoolClocks())
        self._class_contest: Contest | None = None
        self._key_contests: dict[int, Contest] = {}
        self._served: set[int] = set()
        self._strict = self._policy.mode == "strict-priority"
        self._strides = _strides(projection)

    def _approved(
        self, buckets: Mapping[int, Mapping[str, Bucket]]
    ) -> dict[int, dict[str, Bucket]]:
        """The buckets with the Work that the caller may launch, and without empty ones."""
        found: dict[int, dict[str, Bucket]] = {}
        for priority, keys in buckets.items():
            for key, bucket in keys.items():
                left = [place for place in bucket if self._may_launch(self._state(place))]
                if left:
                    found.setdefault(priority, {})[key] = left
        return found

    def _state(self, place: int) -> WorkState:
        return self._projection.works[self._projection.by_place[place]]

    def _may_launch(self, state: WorkState) -> bool:
        return self._profiles is None or state.work.worker_profile in self._profiles

    def _let_in_gated(self, place: int, state: WorkState) -> None:
        if state.retry_not_before > self._at or not self._may_launch(state):
            return
        observations = open_observations(self._projection, state, self._at)
        if observations is None:
            return
        self._bound[place] = observations
        slot = (state.priority, state.work.fairness_key)
        insort(self._gated.setdefault(slot, []), place)

    def next(self) -> Winner | Stop:
        """The next winner, or why there is none; changes nothing."""
        if self._projection.grants_paused and not self._preview:
            return Stop("grants_paused")
        if self._counts.available <= self._granted:
            return Stop("no_work")
        if not any(self._has_left(priority) for priority in self._names):
            return Stop("no_eligible_work")
        full = self._counts.open_claims + self._granted >= self._pool.logical_limit
        if full and not self._preview:
            return Stop("capacity_blocked", "logical")
        classes = sorted(filter(self._has_leader, self._names))
        if not classes:
            return Stop("capacity_blocked", "account")
        priority, class_pass = self._leading_class(classes)
        contest = self._keys_of(priority)
        leader = contest.leader()
        assert leader is not None
        key, key_pass = leader
        place = self._bucket(priority, key)[self._cursors.get((priority, key), 0)]
        return Winner(
            state=self._state(place),
            observations=self._bound.get(place, []),
            basis=self._basis(classes, contest, key),
            class_pass=class_pass,
            key_pass=key_pass,
        )

    def _basis(self, classes: list[int], contest: Contest, key: str) -> tuple[str, ...]:
        if len(classes) == 1 and contest.size == 1 and key == "":
            return ("fifo_default",)
        return ("priority_class" if self._strict else "weighted_class", "weighted_key")

    def _competing_names(self) -> Mapping[int, Collection[str]]:
        """The keys with ready Work, per class; the frontier's own where no gate is open."""
        if not self._gated:
            return self._buckets
        names: dict[int, Collection[str]] = dict(self._buckets)
        for priority, key in self._gated:
            names[priority] = {*names.get(priority, ()), key}
        return names

    def _has_left(self, priority: int) -> bool:
        """Whether the class has Work that only capacity could still hold back."""
        return len(self._names[priority]) > self._spent.get(priority, 0)

    def _left(self, priority: int, key: str) -> int:
        return len(self._bucket(priority, key)) - self._cursors.get((priority, key), 0)

    def _bucket(self, priority: int, key: str) -> Bucket:
        slot = (priority, key)
        plain = self._buckets.get(priority, {}).get(key, [])
        if slot not in self._gated:
            return plain
        merged = self._merged.get(slot)
        if merged is None:
            merged = self._merged[slot] = sorted([*plain, *self._gated[slot]])
        return merged

    def _is_capped(self, key: str) -> bool:
        cap = self._pool.per_account_limit
        if not isinstance(cap, int):
            return False
        outstanding = self._counts.open_by_key.get(key, 0) + self._granted_by_key.get(key, 0)
        return outstanding >= cap

    def _keys(self, priority: int) -> Collection[str]:
        """The keys that compete in a class."""
        names = self._names[priority]
        if self._spent.get(priority):
            names = [key for key in names if self._left(priority, key)]
        if isinstance(self._pool.per_account_limit, int):
            names = [key for key in names if not self._is_capped(key)]
        return names

    def _has_leader(self, priority: int) -> bool:
        contest = self._key_contests.get(priority)
        if contest is not None:
            return contest.leader() is not None
        if not isinstance(self._pool.per_account_limit, int):
            return self._has_left(priority)
        return bool(self._keys(priority))

    def _leading_class(self, classes: list[int]) -> tuple[int, int | None]:
        if self._strict:
            return classes[0], None
        if self._class_contest is None:
            names = [str(priority) for priority in classes]
            self._class_contest = Contest(self._clocks.classes, self._strides.classes, names)
        leader = self._class_contest.leader()
        assert leader is not None
        return int(leader[0]), leader[1]

    def _keys_of(self, priority: int) -> Contest:
        contest = self._key_contests.get(priority)
        if contest is None:
            clock = self._clocks.keys.get(priority, Clock())
            contest = Contest(clock, self._strides.keys, self._keys(priority))
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
        self._withdraw(priority, key)

    def _withdraw(self, priority: int, key: str) -> None:
        """Take out what the last grant has used up: the key, and classes left without one."""
        spent = not self._left(priority, key)
        capped = self._is_capped(key)
        if spent:
            self._spent[priority] = self._spent.get(priority, 0) + 1
            self._key_contests[priority].withdraw(key)
        if capped:
            for contest in self._key_contests.values():
                contest.withdraw(key)
        if self._class_contest is not None and (spent or capped):
            for one in self._names:
                if not self._has_leader(one):
                    self._class_contest.withdraw(str(one))

    def standing(self) -> dict[str, list[tuple[str, int]]]:
        """Passes of the classes and, per touched class, of its keys; for explanations."""
        found = {str(one): contest.standing() for one, contest in self._key_contests.items()}
        if self._class_contest is not None:
            found["classes"] = self._class_contest.standing()
        return found

    def eligible(self) -> dict[int, dict[str, int]]:
        """How much Work competes now, per class and key; for explanations."""
        return {
            priority: {key: self._left(priority, key) for key in sorted(self._keys(priority))}
            for priority in sorted(filter(self._has_leader, self._names))
        }

    def clocks(self) -> PoolClocks:
        """The pool's clocks after the served winners; untouched sets keep theirs."""
        keys = dict(self._clocks.keys)
        for priority in self._served:
            keys[priority] = self._key_contests[priority].clock()
        classes = self._clocks.classes
        if self._class_contest is not None and self._served:
            classes = self._class_contest.clock()
        return PoolClocks(classes, keys)


@dataclass(frozen=True, slots=True)
class _EpochStrides:
    classes: Strides
    keys: Strides


def _strides(projection: Projection) -> _EpochStrides:
    """The strides of the installed policy, worked out once an epoch."""
    known = projection.derived.get(_EpochStrides)
    if isinstance(known, _EpochStrides):
        return known
    policy = projection.policy
    weights = {str(number): weight for number, weight in enumerate(policy.class_weights, start=1)}
    made = _EpochStrides(Strides(weights), Strides(policy.accounting_weights))
    projection.derived[_EpochStrides] = made
    return made
