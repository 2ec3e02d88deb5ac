"""Projection: everything a validated history means, with the indexes that keep each step cheap.

Source: specification 1, §§7.6, 7.17. It is changed only by the transitions, through the few
methods here that keep counters, reserve and indexes true; it does no I/O and reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from callboard.board.projection import reserve
from callboard.board.projection.entities import (
    ClaimState,
    DispatchState,
    GraphState,
    PoolClocks,
    RequestState,
    WorkState,
)
from callboard.board.projection.frontier import Frontier
from callboard.board.projection.journal import Journal
from callboard.board.protocol.operations import Observation, WorkDependency
from callboard.board.protocol.policy import PolicyDocument, Pool
from callboard.errors import CallboardError

FIRST_GENERATION = "initial"


@dataclass(slots=True)
class Counters:
    """Running totals; `unreleased` counts groups that still hold their reservation."""

    work: int = 0
    available: int = 0
    claimed: int = 0
    completed: int = 0
    cancelled: int = 0
    pending_delivery: int = 0
    claims: int = 0
    unreleased: int = 0
    transactions: int = 0
    nodes: int = 0


class PoolState:
    """One pool's frontier and outstanding counts."""

    def __init__(self) -> None:
        self.frontier = Frontier()
        self.available = 0
        self.unsettled = 0
        self.open_claims = 0
        self.unreleased = 0
        self.open_by_key: dict[str, int] = {}


class Projection:
    """The state after a validated chain; empty before genesis."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.repository: str | None = None
        self.tip: str | None = None
        self.last_at = 0
        self.ledger_bytes = 0
        self.reserve_bytes = 0
        self.policy_epoch: str | None = None
        self._policy: PolicyDocument | None = None
        self.admission_paused = False
        self.grants_paused = False
        self.credential_generation = FIRST_GENERATION
        self.observation_writes = 0
        self.counters = Counters()
        self.works: dict[str, WorkState] = {}
        self.claims: dict[str, ClaimState] = {}
        self.dispatches: dict[str, DispatchState] = {}
        self.observations: dict[str, Observation] = {}
        self.observation_ids: dict[str, Observation] = {}
        self.requests: dict[str, RequestState] = {}
        self.commit_ids: dict[str, int] = {}
        self.runs: dict[str, str] = {}
        self.graphs: dict[str, GraphState] = {}
        self.dependents: dict[str, list[str]] = {}
        self.by_place: dict[int, str] = {}
        self.clocks: dict[str, PoolClocks] = {}
        self.pools: dict[str, PoolState] = {}
        self.open_dispatches: dict[str, None] = {}
        self.pending_deliveries: dict[str, None] = {}
        self.seen_epochs: dict[str, bool] = {}
        self.seen_generations: dict[str, bool] = {FIRST_GENERATION: True}

    @property
    def policy(self) -> PolicyDocument:
        """The installed policy; there is one from genesis on."""
        if self._policy is None:
            raise CallboardError(
                "queue_missing", "the board has no history yet", "post a first plan: submit FILE"
            )
        return self._policy

    @property
    def ordinal(self) -> int:
        """The place in the chain that the next commit takes."""
        return len(self.commit_ids)

    def pool(self, name: str) -> Pool:
        """A pool's policy, or `pool_unknown`."""
        pool = self.policy.pools.get(name)
        if pool is None:
            raise CallboardError(
                "pool_unknown",
                f"there is no pool {name!r}",
                "pools: " + ", ".join(sorted(self.policy.pools)),
            )
        return pool

    def pool_state(self, name: str) -> PoolState:
        """A pool's frontier and counts."""
        self.pool(name)
        return self.pools[name]

    def install_policy(self, epoch: str, policy: PolicyDocument) -> None:
        """Begin an epoch: clocks start empty, pools that go keep no state."""
        journal = self.journal
        journal.assign(self, "_policy", policy)
        journal.assign(self, "policy_epoch", epoch)
        journal.put(self.seen_epochs, epoch, True)
        journal.assign(self, "clocks", {})
        journal.assign(self, "pools", {name: PoolState() for name in policy.pools})

    def add_work(self, state: WorkState) -> None:
        """Take in a new Work."""
        work = state.work
        journal = self.journal
        journal.put(self.works, work.work_id, state)
        journal.put(self.by_place, state.place, work.work_id)
        for dependency in work.depends_on:
            if isinstance(dependency, WorkDependency):
                dependents = self.dependents.setdefault(dependency.work_id, [])
                dependents.append(work.work_id)
                journal.note(dependents.pop)
        self._bump("work", 1)
        self._count_work(state, 1)

    def set_work(self, new: WorkState) -> None:
        """Replace a Work's state; counters, reserve and indexes follow."""
        old = self.works[new.work.work_id]
        self._count_work(old, -1)
        self.journal.put(self.works, new.work.work_id, new)
        self._count_work(new, 1)

    def _count_work(self, state: WorkState, sign: int) -> None:
        pool = self.pools[state.work.pool]
        self._bump(state.state, sign)
        self._add(pool, "available", sign if state.state == "available" else 0)
        self._add(pool, "unsettled", 0 if state.is_settled else sign)
        if state.barrier == "pending":
            self._bump("pending_delivery", sign)
            self._mark(self.pending_deliveries, state.work.work_id, sign)
        policy = self.policy
        cost = reserve.of_work(state, policy.pools[state.work.pool], policy.limits)
        self._add(self, "reserve_bytes", sign * cost)
        if state.is_ready:
            frontier = pool.frontier
            change, inverse = (
                (frontier.enter, frontier.leave) if sign > 0 else (frontier.leave, frontier.enter)
            )
            change(state)
            self.journal.note(inverse, state)

    def add_claim(self, state: ClaimState) -> None:
        """Take in a new, open Claim."""
        self.journal.put(self.claims, state.claim.claim_id, state)
        self._bump("claims", 1)
        self._count_open_claim(state, 1)

    def set_claim(self, new: ClaimState) -> None:
        """Replace a Claim's state; an open one that closes frees its logical slot."""
        old = self.claims[new.claim.claim_id]
        self.journal.put(self.claims, new.claim.claim_id, new)
        if old.state == "open" and new.state != "open":
            self._count_open_claim(new, -1)
            dispatch = self.dispatches[new.claim.dispatch_id]
            self.set_dispatch(structs.replace(dispatch, open_claims=dispatch.open_claims - 1))

    def _count_open_claim(self, state: ClaimState, sign: int) -> None:
        work = self.works[state.claim.work_id].work
        pool = self.pools[work.pool]
        self._add(pool, "open_claims", sign)
        count = pool.open_by_key.get(work.fairness_key, 0) + sign
        self.journal.put(pool.open_by_key, work.fairness_key, count)

    def add_dispatch(self, state: DispatchState) -> None:
        """Take in a new group with its native reservation."""
        self.journal.put(self.dispatches, state.assignment.dispatch_id, state)
        self._count_dispatch(state, 1)

    def set_dispatch(self, new: DispatchState) -> None:
        """Replace a group's state."""
        old = self.dispatches[new.assignment.dispatch_id]
        self._count_dispatch(old, -1)
        self.journal.put(self.dispatches, new.assignment.dispatch_id, new)
        self._count_dispatch(new, 1)

    def _count_dispatch(self, state: DispatchState, sign: int) -> None:
        if state.released:
            return
        policy = self.policy
        name = state.assignment.pool
        self._bump("unreleased", sign)
        self._add(self.pools[name], "unreleased", sign)
        self._mark(self.open_dispatches, state.assignment.dispatch_id, sign)
        cost = reserve.of_dispatch(state, policy.pools[name], policy.limits)
        self._add(self, "reserve_bytes", sign * cost)

    def _mark(self, marks: dict[str, None], key: str, sign: int) -> None:
        if sign > 0:
            self.journal.put(marks, key, None)
        else:
            del marks[key]
            self.journal.note(marks.__setitem__, key, None)

    def _bump(self, name: str, by: int) -> None:
        self._add(self.counters, name, by)

    def _add(self, target: object, name: str, by: int) -> None:
        if by:
            self.journal.assign(target, name, getattr(target, name) + by)
