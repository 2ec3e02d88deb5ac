"""The run loop: reconcile, grant what slots allow, launch, wait for something to change.

Source: specification 1, §§7.7, 7.8. It holds no state that a successor would need: killed at any
moment, the next `run` goes on from the board and the registry.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from msgspec import UNSET

from callboard import telemetry
from callboard.board.execution.dispatcher import Dispatcher
from callboard.board.execution.dispatching import granted
from callboard.board.execution.pulse import wait_for_change
from callboard.board.execution.reach import Reach
from callboard.board.execution.reconcile import OUT_OF_REACH, Findings, Reconciler
from callboard.board.execution.run_events import RunEvent, events_between, waiting
from callboard.board.execution.site import Site
from callboard.board.projection.state import Projection
from callboard.board.protocol import commit as wire
from callboard.board.protocol.operations import Actor
from callboard.board.protocol.policy import CEILINGS
from callboard.board.publishing import compaction
from callboard.board.publishing.compaction import Thrift
from callboard.board.publishing.intents import DispatchNext, Nothing
from callboard.board.publishing.publisher import Accepted
from callboard.board.reading.columns import Columns
from callboard.board.reading.view import View
from callboard.board.storage.remote_refusals import OUTAGES
from callboard.errors import CallboardError

MAX_CLAIMS = 256
MAX_LEFT = 100
# What ends a pass and not the loop: the next one meets another board, or another network.
_PASSING = OUTAGES | {"contention", "outcome_unknown", "queue_missing"}


@dataclass(slots=True)
class RunSummary:
    """Counts of what this process saw happen, why it ended and after how many ms.

    `left` is unsettled Work that this process cannot move on, each with its board column: stuck,
    or paused, or in the hands of others. `requests` are those that were granted, `sender_run_id`
    is the run that stands in this process's start markers.
    """

    reason: str = "stopped"
    duration_ms: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    left: list[dict[str, object]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    sender_run_id: str | None = None

    def document(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "reason": self.reason,
            "duration_ms": self.duration_ms,
            "counts": dict(self.counts),
            "left": list(self.left),
        }


class Runner:
    """One `run`: at most `workers` runs of this process at a time."""

    def __init__(
        self,
        site: Site,
        environment: Mapping[str, str],
        *,
        pools: list[str] | None,
        workers: int,
        only: Collection[str] | None,
        new_request_id: Callable[[], str],
        follow: Callable[[Actor], None],
        on_event: Callable[[RunEvent], None],
        checkpoint_percent: int = 0,
    ) -> None:
        self._site = site
        self._dispatcher = Dispatcher(site, environment)
        self._reconciler = Reconciler(self._dispatcher)
        self._reach = Reach(site, self._dispatcher.host_of)
        self._pools = pools
        self._workers = workers
        self._only = only
        self._follow = follow
        self._new_request_id = new_request_id
        self._on_event = on_event
        self._findings = Findings()
        self._lacking: dict[str, dict[str, str]] = {}
        self._summary = RunSummary()
        self._announced: tuple[str, int] | None = None
        self._waits_at: str | None = None
        self._thrift = Thrift(checkpoint_percent)
        self._seen = site.publisher.refresh().projection.ordinal

    def run(self, *, until_idle: bool, stop: threading.Event) -> RunSummary:
        """Work until `stop` is set, or with `until_idle` until nothing is left that could move.

        Lost races beyond the publisher's patience only delay it. Runs that are under way when it
        stops go on under their supervisors.
        """
        began_ms = self._site.clock.now_ms()
        while not stop.is_set():
            with self._site.publisher.steady():
                idle = self._turn()
            self._dispatcher.reap()
            if until_idle and idle:
                self._summary.reason = "idle"
                break
            wait_for_change(self._site, stop)
        with _unless_out_of_reach():
            self._report()
            self._summary.left = _left(self._site, self._findings, self._lacking)
        self._summary.duration_ms = max(0, self._site.clock.now_ms() - began_ms)
        return self._summary

    def _turn(self) -> bool:
        """One pass; tells whether only outside events could still move the board."""
        try:
            tip = self._projection.tip
            self._findings = self._reconciler.run_pass(self._has_slot)
            for pool in self._open_pools():
                self._serve(pool)
            self._compact()
            self._report()
            self._announce_wait()
            return self._projection.tip == tip and self._is_idle()
        except CallboardError as error:
            if error.code not in _PASSING:
                raise
            self._count(error.code)
            return False

    def _serve(self, pool: str) -> None:
        """Grant what free slots allow, and launch it."""
        free = self._workers - self._busy()
        if free <= 0:
            return
        try:
            self._follow(self._site.actor("dispatcher"))
            launchable = self._launchable(pool)
            if launchable == []:
                return
            with telemetry.span("work-queue.schedule.run", quiet=True, pool=pool):
                outcome = self._grant(pool, launchable, free)
                if isinstance(outcome, Nothing):
                    return
                self._summary.requests.append(outcome.request.request_id)
                for dispatch_id in granted(self._projection, outcome):
                    self._dispatcher.launch(dispatch_id)
        except CallboardError as error:
            # Neither hinders other pools, or the end of what runs.
            if error.code not in ("grants_paused", "ledger_limit"):
                raise
            self._count(error.code)

    def _grant(self, pool: str, launchable: list[str] | None, free: int) -> Accepted | Nothing:
        """Ask for as many runs as there are places, and where the ledger has no room for so many
        for fewer, down to one with one Claim; its `ledger_limit` is the caller's."""
        claims, runs = MAX_CLAIMS, free
        while True:
            asked = wire.DispatchNextParameters(
                pool=pool,
                max_claims=claims,
                max_dispatches=runs,
                max_bytes=CEILINGS.assignment_bytes,
                worker_profiles=UNSET if launchable is None else launchable,
            )
            intent = DispatchNext(self._new_request_id(), self._site.actor("dispatcher"), asked)
            try:
                return self._site.publisher.publish(intent)
            except CallboardError as error:
                if error.code != "ledger_limit" or (claims, runs) == (1, 1):
                    raise
            claims, runs = (claims, runs // 2) if runs > 1 else (1, 1)

    def _launchable(self, pool: str) -> list[str] | None:
        """The pool's workers that this process may and can launch; None for all of them."""
        lacking = self._lacking[pool] = self._reach.lacking(pool)
        if self._only is None and not lacking:
            return None
        names = self._projection.pool_state(pool).routes.keys() - lacking.keys()
        return sorted(names if self._only is None else names & set(self._only))

    def _compact(self) -> None:
        """Replace a log that has grown large by a checkpoint, where that is worth it."""
        projection = self._projection
        if not self._thrift.is_due(projection):
            return
        used_bytes = projection.ledger_bytes
        try:
            compaction.compact(
                self._site.publisher, self._site.actor("administrator"), self._thrift
            )
        except CallboardError as error:
            if error.code not in ("checkpoint_limit", "checkpoint_unprofitable", "ledger_limit"):
                raise
            self._thrift.give_up(used_bytes)
            if error.code != "checkpoint_unprofitable":
                self._count(error.code)

    @property
    def _projection(self) -> Projection:
        return self._site.publisher.refresh().projection

    def _open_pools(self) -> list[str]:
        projection = self._projection
        if projection.policy_epoch is None:
            return []
        names = sorted(projection.pools) if self._pools is None else self._pools
        return [name for name in names if projection.pool_state(name).available]

    def _busy(self) -> int:
        """Unreleased groups that this process launched, by its start markers."""
        projection = self._projection
        own = self._summary.sender_run_id = self._dispatcher.run_id
        return sum(
            1
            for dispatch_id in projection.open_dispatches
            if (sender := projection.dispatches[dispatch_id].sender) is not None
            and sender.run_id == own
        )

    def _has_slot(self) -> bool:
        return self._busy() < self._workers

    def _is_idle(self) -> bool:
        """Whether nothing is under way that this process could see to its end.

        Only meaningful where the turn has left the board as it was: then what is ready was offered
        to the planner and could not be granted.
        """
        projection = self._projection
        found = self._findings.dispatches
        stuck = {one for one in projection.open_dispatches if found.get(one) in OUT_OF_REACH}
        if len(stuck) < len(projection.open_dispatches):
            return False
        claims = (projection.works[one].claim_id for one in projection.pending_deliveries)
        if any(projection.claims[str(one)].claim.dispatch_id not in stuck for one in claims):
            return False
        return projection.grants_paused or not any(
            projection.pool_state(name).frontier.delayed for name in self._open_pools()
        )

    def _report(self) -> None:
        history = self._site.publisher.refresh()
        # A listener may look at the board, which lets this same history grow.
        seen, self._seen = self._seen, history.projection.ordinal
        for event in events_between(history, seen, self._seen):
            self._count(event.kind)
            self._on_event(event)

    def _announce_wait(self) -> None:
        """Say once, where nothing runs, what is tried again next and when."""
        projection = self._projection
        if projection.open_dispatches or projection.grants_paused:
            return
        pools = [one for one in self._open_pools() if projection.pool_state(one).frontier.delayed]
        if not pools:
            return
        now_ms = self._site.clock.now_ms()
        if self._announced and self._waits_at == projection.tip and now_ms < self._announced[1]:
            # As long as nothing is new, all Work need not be looked through again for the same.
            return
        delayed = [
            state
            for state in projection.works.values()
            if state.work.pool in pools and state.is_ready and state.retry_not_before > now_ms
        ]
        if not delayed:
            return
        first = min(delayed, key=lambda state: (state.retry_not_before, state.place))
        until_ms = first.retry_not_before
        self._waits_at = projection.tip
        if self._announced == (first.work.work_id, until_ms):
            return
        self._announced = (first.work.work_id, until_ms)
        self._on_event(waiting(now_ms, first, until_ms, len(delayed) - 1))

    def _count(self, kind: str) -> None:
        self._summary.counts[kind] = self._summary.counts.get(kind, 0) + 1


@contextmanager
def _unless_out_of_reach() -> Iterator[None]:
    """Do without what cannot be asked now; what happened is on the record all the same."""
    try:
        yield
    except CallboardError as error:
        if error.code not in _PASSING:
            raise


def _left(
    site: Site, findings: Findings, lacking: Mapping[str, Mapping[str, str]]
) -> list[dict[str, object]]:
    """Unsettled Work that this process cannot move on, with column and reason; at most 100.

    `lacking` says for each pool which workers cannot run here.
    """
    history = site.publisher.refresh()
    projection = history.projection
    columns = Columns(View(history, site.publisher.decision_time(projection)))
    found: list[dict[str, object]] = []
    for work_id, state in projection.works.items():
        if len(found) >= MAX_LEFT:
            break
        if state.is_settled:
            continue
        placed = columns.place(state)
        reason: str | None = placed.reason
        if placed.column == "ready":
            reason = lacking.get(state.work.pool, {}).get(state.lane.profile, reason)
        if state.claim_id is not None:
            word = findings.dispatches.get(projection.claims[state.claim_id].claim.dispatch_id)
            reason = word if word in OUT_OF_REACH else None
        if reason is not None:
            found.append(
                {
                    "work_id": work_id,
                    "node_key": state.work.node_key,
                    "name": columns.names.label(work_id),
                    "column": placed.column,
                    "reason": reason,
                }
            )
    return found


def run(
    site: Site,
    environment: Mapping[str, str],
    *,
    pool: str | None,
    workers: int,
    until_idle: bool,
    stop: threading.Event,
    on_event: Callable[[RunEvent], None],
    follow: Callable[[Actor], None],
    only: Collection[str] | None,
    new_request_id: Callable[[], str],
    checkpoint_percent: int = 0,
) -> RunSummary:
    """Run the board with this process as dispatcher; see `Runner.run`.

    `follow` is called before each grant, so that workers run at HEAD's commit.
    From `checkpoint_percent` of the policy's `ledger_bytes` on (0: never) the log is compacted.
    """
    runner = Runner(
        site,
        environment,
        pools=None if pool is None else [pool],
        workers=workers,
        only=only,
        new_request_id=new_request_id,
        follow=follow,
        on_event=on_event,
        checkpoint_percent=checkpoint_percent,
    )
    return runner.run(until_idle=until_idle, stop=stop)
