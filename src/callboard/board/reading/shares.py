"""Turns due and turns got, for each class and each key of a pool.

Source: specification 1, §§7.4, 7.5, 8.1. A turn is a Claim. Of every turn granted in this policy
epoch, each sibling that had Work to grant at that moment was due its weight's part; a sibling
without any was due nothing and saves nothing up. It reports; it never ranks.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from callboard.board.projection.entities import ClaimState, WorkState
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import POSITION_BITS
from callboard.board.protocol.operations import WorkDependency
from callboard.board.protocol.scalars import PRIORITIES
from callboard.board.reading.view import Document, View

_DEFAULT_WEIGHT = 1


@dataclass(slots=True)
class _Siblings:
    """One set of competitors. `rate` is the sum, over turns so far, of 1 / weights competing."""

    weights: Mapping[str, int]
    counts: dict[str, int] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    got: dict[str, int] = field(default_factory=dict)
    rate: float = 0.0
    total: int = 0
    _since: dict[str, float] = field(default_factory=dict)

    def weight(self, name: str) -> int:
        return self.weights.get(name, _DEFAULT_WEIGHT)

    def add(self, name: str, by: int) -> None:
        """`by` more Work (or less) that `name` could be granted."""
        before = self.counts.get(name, 0)
        after = self.counts[name] = before + by
        if before <= 0 < after:
            self.total += self.weight(name)
            self._since[name] = self.rate
        elif after <= 0 < before:
            self.total -= self.weight(name)
            self._settle(name, self._since.pop(name))

    def _settle(self, name: str, since: float) -> None:
        self.due[name] = self.due.get(name, 0.0) + self.weight(name) * (self.rate - since)

    def turn(self, name: str) -> None:
        """One turn was granted, to `name`."""
        self.got[name] = self.got.get(name, 0) + 1
        if self.total:
            self.rate += 1 / self.total

    def close(self) -> None:
        """Count what is due up to now to those who still compete."""
        for name, since in self._since.items():
            self._settle(name, since)
            self._since[name] = self.rate

    def rows(self, label: str) -> list[Document]:
        """A row for each sibling that ever had Work."""
        return [
            {
                label: name,
                "weight": self.weight(name),
                "due_turns": f"{self.due.get(name, 0.0):.1f}",
                "got_turns": self.got.get(name, 0),
                "waiting": max(self.counts[name], 0),
            }
            for name in sorted(self.counts)
        ]


def shares(view: View) -> list[Document]:
    """For each pool `{pool, mode, turns, classes:[…]}`, a class with its `keys`.

    Under strict priority a class is due nothing by weight, so `weight` and `due_turns` are left
    out there. A key at its account limit still counts as having Work.
    """
    projection = view.projection
    return [_pool_shares(view, name) for name in sorted(projection.policy.pools)]


def _pool_shares(view: View, pool: str) -> Document:
    projection = view.projection
    policy = projection.policy
    strict = policy.mode == "strict-priority"
    weights = {str(n): weight for n, weight in enumerate(policy.class_weights, start=1)}
    classes = _Siblings(weights)
    keys = {str(n): _Siblings(policy.accounting_weights) for n in PRIORITIES}
    turns = 0
    for event in _events(projection, pool, view.at_ms):
        name, key = str(event.priority), event.key
        if event.granted:
            classes.turn(name)
            keys[name].turn(key)
            turns += 1
        classes.add(name, event.by)
        keys[name].add(key, event.by)
    classes.close()
    for siblings in keys.values():
        siblings.close()
    rows = classes.rows("priority")
    for row in rows:
        row["keys"] = keys[row["priority"]].rows("key")
        row["priority"] = int(row["priority"])
        if strict:
            del row["weight"], row["due_turns"]
    return {"pool": pool, "mode": policy.mode, "turns": turns, "classes": rows}


@dataclass(frozen=True, slots=True)
class _Event:
    """Work that could be granted from now on (by +1) or no longer (-1), in the latter case
    perhaps because it was granted."""

    priority: int
    key: str
    by: int
    granted: bool = False


def _events(projection: Projection, pool: str, now_ms: int) -> Iterator[_Event]:
    """What happened to the pool's grantable Work, in causal order.

    Changes are sorted by the ordinal of the commit that made them; those of one commit stand
    before the grants of a later one. Retries come back with the first grant at or after their
    time.
    """
    works = {key: state for key, state in projection.works.items() if state.work.pool == pool}
    changes = _changes(projection, works)
    heapq.heapify(changes)
    delayed: list[tuple[int, str]] = []
    grantable: set[str] = set()
    ended: set[str] = set()

    def change(work_id: str, by: int, granted: bool = False) -> Iterator[_Event]:
        state = works[work_id]
        if (by > 0) != (work_id in grantable):
            (grantable.add if by > 0 else grantable.discard)(work_id)
            yield _Event(state.priority, state.work.fairness_key, by, granted)

    def until(ordinal: int, at: int) -> Iterator[_Event]:
        while changes and changes[0][0] < ordinal:
            _ordinal, by, ready_ms, work_id = heapq.heappop(changes)
            if by < 0:
                ended.add(work_id)
            if by > 0 and ready_ms > 0:
                heapq.heappush(delayed, (ready_ms, work_id))
            elif by < 0 or work_id not in ended:
                yield from change(work_id, by)
        while delayed and delayed[0][0] <= at:
            work_id = heapq.heappop(delayed)[1]
            if work_id not in ended:
                yield from change(work_id, 1)

    for claim in projection.claims.values():
        if claim.claim.work_id not in works:
            continue
        ordinal = projection.commit_ids[claim.commit_id]
        yield from until(ordinal, claim.at)
        counts = projection.requests[claim.request_id].policy_epoch == projection.policy_epoch
        yield from change(claim.claim.work_id, 1)
        yield from change(claim.claim.work_id, -1, granted=counts)
    yield from until(projection.ordinal, now_ms)


def _changes(
    projection: Projection, works: Mapping[str, WorkState]
) -> list[tuple[int, int, int, str]]:
    """(ordinal, +1 or -1, time it waits for, Work) for all that comes and goes but grants."""
    found: list[tuple[int, int, int, str]] = []
    ordinals = projection.commit_ids
    for work_id, state in works.items():
        ready = _ready_ordinal(projection, state)
        if ready is not None:
            found.append((ready, 1, 0, work_id))
        if state.cancellation_commit_id is not None:
            found.append((ordinals[state.cancellation_commit_id], -1, 0, work_id))
    for claim in projection.claims.values():
        if claim.claim.work_id in works and _comes_back(claim):
            ordinal = ordinals[str(claim.terminal_commit_id)]
            found.append((ordinal, 1, claim.retry_not_before or 0, claim.claim.work_id))
    return found


def _comes_back(claim: ClaimState) -> bool:
    return claim.state == "cancelled" and claim.terminal_commit_id is not None


def _ready_ordinal(projection: Projection, state: WorkState) -> int | None:
    """The ordinal from which on no predecessor stood in the way; None while one does."""
    if state.blocked:
        return None
    latest = state.place >> POSITION_BITS
    for dependency in state.work.depends_on:
        if isinstance(dependency, WorkDependency):
            commit_id = projection.works[dependency.work_id].result_commit_id
            latest = max(latest, projection.commit_ids.get(commit_id or "", 0))
    return latest
