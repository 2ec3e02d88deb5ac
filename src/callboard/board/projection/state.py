"""Projection: everything a validated history means, with the indexes that keep each step cheap.

Source: specification 1, §§7.6, 7.17. It is changed only by the transitions, through the few
methods here that keep counters, reserve and indexes true; it does no I/O and reads no clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
from callboard.board.projection.journal import Journal, Kept, NoJournal
from callboard.board.projection.links import Links
from callboard.board.projection.routes import Revision, Route
from callboard.board.protocol.operations import Observation
from callboard.board.protocol.policy import PolicyDocument, Pool
from callboard.errors import CallboardError

FIRST_GENERATION = "initial"


class Counters(Kept):
    """Running totals; `unreleased` counts groups that still hold their reservation."""

    FIELDS = (
        "work",
        "available",
        "claimed",
        "completed",
        "cancelled",
        "pending_delivery",
        "claims",
        "unreleased",
        "transactions",
        "nodes",
    )

    def __init__(self) -> None:
        self.work = 0
        self.available = 0
        self.claimed = 0
        self.completed = 0
        self.cancelled = 0
        self.pending_delivery = 0
        self.claims = 0
        self.unreleased = 0
        self.transactions = 0
        self.nodes = 0

    def move(self, old: str, new: str) -> None:
        """One Work changed its ownership state."""
        setattr(self, old, getattr(self, old) - 1)
        setattr(self, new, getattr(self, new) + 1)


class PoolState(Kept):
    """One pool's policy, its routes by profile name, its frontier and its outstanding counts."""

    FIELDS = ("available", "unsettled", "open_claims", "unreleased")

    def __init__(self, pool: Pool) -> None:
        self.rules = pool
        self.routes = {name: Route.of(profile) for name, profile in pool.profiles.items()}
        self.frontier = Frontier(self.routes)
        self.available = 0
        self.unsettled = 0
        self.open_claims = 0
        self.unreleased = 0
        self.open_by_key: dict[str, int] = {}


class Projection(Kept):
    """The state after a validated chain; empty before genesis.

    `derived` holds what readers have worked out of the installed policy, until the next one.
    """

    FIELDS = (
        "repository",
        "tip",
        "last_at",
        "ledger_bytes",
        "reserve_bytes",
        "policy_epoch",
        "_policy",
        "admission_paused",
        "grants_paused",
        "credential_generation",
        "observation_writes",
        "clocks",
        "pools",
        "derived",
    )

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
        self.derived: dict[type, object] = {}
        self.open_dispatches: dict[str, None] = {}
        self.pending_deliveries: dict[str, None] = {}
        self.links = Links()
        self._moved: dict[tuple[str, str], None] = {}
        self.seen_epochs: dict[str, bool] = {}
        self.seen_generations: dict[str, bool] = {FIRST_GENERATION: True}

    @contextmanager
    def without_undo(self) -> Iterator[None]:
        """Apply commits for good, and faster; after a refusal this projection is worthless."""
        self.journal = NoJournal()
        yield
        self.journal = Journal()

    def begin(self) -> None:
        """Make what was applied so far final, and the next commit undoable."""
        self.journal.forget()
        self._moved.clear()
        self.journal.keep(self)
        self.journal.keep(self.counters)

    def take_over(self, other: Projection) -> None:
        """Become what `other`, built for this, is. Only an empty projection may; undoable."""
        before = {name: value for name, value in vars(self).items() if name != "journal"}
        self.journal.note(vars(self).update, before)
        vars(self).update({name: vars(other)[name] for name in before})

    @property
    def policy(self) -> PolicyDocument:
        """The installed policy; there is one from genesis on."""
        if self._policy is None:
            raise CallboardError(
                "queue_missing",
                "the board has no history yet",
                "post a first plan: callboard submit FILE",
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
        """Begin an epoch: clocks and routes start anew, pools that go keep no state."""
        self._policy = policy
        self.policy_epoch = epoch
        self.journal.put(self.seen_epochs, epoch, True)
        self.clocks = {}
        self.derived = {}
        self.pools = {name: PoolState(pool) for name, pool in policy.pools.items()}

    def deploy(self, pool: str, profile: str, revision: Revision, *, activate: bool) -> None:
        """Register a worker's revision, or what became of it, and perhaps move its route there.

        Work that this lets run, or stops, follows with `settle_routes`.
        """
        state, journal = self.pools[pool], self.journal
        if (pool, profile) not in self._moved:
            self._moved[pool, profile] = None
            # Undone last first: the route goes back before the frontier looks at it again.
            journal.note(state.frontier.reroute, profile)
        route, ref = state.routes[profile], revision.profile.ref
        journal.put(route.revisions, ref, revision)
        if activate and route.current != ref:
            journal.put(state.routes, profile, structs.replace(route, current=ref))

    def settle_routes(self) -> None:
        """Let Work follow the routes that the present commit has moved, each of them once."""
        for pool, profile in self._moved:
            self.pools[pool].frontier.reroute(profile)
        self._moved.clear()

    def add_work(self, state: WorkState) -> None:
        """Take in a new, available Work."""
        work = state.work
        journal = self.journal
        journal.put(self.works, work.work_id, state)
        journal.put(self.by_place, state.place, work.work_id)
        for predecessor in work.predecessors:
            dependents = self.dependents.setdefault(predecessor, [])
            dependents.append(work.work_id)
            journal.note(dependents.pop)
        self.counters.work += 1
        self.counters.available += 1
        pool = self.pools[work.pool]
        journal.keep(pool)
        pool.available += 1
        pool.unsettled += 1
        self.reserve_bytes += reserve.of_work(state, pool.rules, self.policy.limits)
        if state.is_ready:
            self._let_in(pool, state)

    def set_work(self, new: WorkState) -> None:
        """Replace a Work's state; counters, reserve and indexes follow."""
        work_id = new.work.work_id
        old = self.works[work_id]
        pool = self.pools[new.work.pool]
        self.journal.put(self.works, work_id, new)
        self.journal.keep(pool)
        if old.is_ready:
            pool.frontier.leave(old)
            self.journal.note(pool.frontier.enter, old)
        if old.state != new.state:
            self.counters.move(old.state, new.state)
            pool.available += (new.state == "available") - (old.state == "available")
        pool.unsettled += old.is_settled - new.is_settled
        if old.barrier != new.barrier:
            self._count_pending(work_id, old, new)
        limits = self.policy.limits
        self.reserve_bytes += reserve.of_work(new, pool.rules, limits)
        self.reserve_bytes -= reserve.of_work(old, pool.rules, limits)
        if new.is_ready:
            self._let_in(pool, new)

    def _let_in(self, pool: PoolState, state: WorkState) -> None:
        pool.frontier.enter(state)
        self.journal.note(pool.frontier.leave, state)

    def _count_pending(self, work_id: str, old: WorkState, new: WorkState) -> None:
        if new.barrier == "pending":
            self.counters.pending_delivery += 1
            self.journal.put(self.pending_deliveries, work_id, None)
        elif old.barrier == "pending":
            self.counters.pending_delivery -= 1
            self._unmark(self.pending_deliveries, work_id)

    def add_claim(self, state: ClaimState) -> None:
        """Take in a new, open Claim."""
        self.journal.put(self.claims, state.claim.claim_id, state)
        self.counters.claims += 1
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
        self.journal.keep(pool)
        pool.open_claims += sign
        count = pool.open_by_key.get(work.fairness_key, 0) + sign
        self.journal.put(pool.open_by_key, work.fairness_key, count)

    def add_dispatch(self, state: DispatchState) -> None:
        """Take in a new group with its native reservation."""
        dispatch_id = state.assignment.dispatch_id
        self.journal.put(self.dispatches, dispatch_id, state)
        self.journal.put(self.open_dispatches, dispatch_id, None)
        self._count_unreleased(state, 1)
        self.reserve_bytes += self._dispatch_reserve(state)

    def set_dispatch(self, new: DispatchState) -> None:
        """Replace a group's state; one that is released frees its native slot."""
        dispatch_id = new.assignment.dispatch_id
        old = self.dispatches[dispatch_id]
        self.journal.put(self.dispatches, dispatch_id, new)
        if new.released and not old.released:
            self._unmark(self.open_dispatches, dispatch_id)
            self._count_unreleased(new, -1)
        if not old.released:
            self.reserve_bytes += self._dispatch_reserve(new) - self._dispatch_reserve(old)

    def _count_unreleased(self, state: DispatchState, sign: int) -> None:
        pool = self.pools[state.assignment.pool]
        self.journal.keep(pool)
        pool.unreleased += sign
        self.counters.unreleased += sign

    def _dispatch_reserve(self, state: DispatchState) -> int:
        rules = self.pools[state.assignment.pool].rules
        return reserve.of_dispatch(state, rules, self.policy.limits)

    def _unmark(self, marks: dict[str, None], key: str) -> None:
        del marks[key]
        self.journal.note(marks.__setitem__, key, None)
