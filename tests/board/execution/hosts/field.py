"""Dispatchers and reconcilers on one board with one simulated host, all of it in this process.

The board is real down to its lines, in memory; each dispatching process is a site of its own with
a line to the store that may fail. Its methods are the steps that a test or a random history takes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from callboard.board.execution.activation import activate
from callboard.board.execution.dispatcher import Dispatcher, Launch
from callboard.board.execution.host import Order
from callboard.board.execution.reconcile import Findings, Reconciler
from callboard.board.execution.site import Folders, Site
from callboard.board.projection.entities import DispatchState
from callboard.board.projection.state import Projection
from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.board.publishing import lifecycle
from callboard.board.publishing.intents import DispatchNext, Nothing
from callboard.board.publishing.publisher import Publisher
from callboard.board.storage.memory import MemoryStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended, LedgerTip, LostRace
from callboard.clock import FixedClock
from callboard.errors import CallboardError
from tests.board import building
from tests.board.boards import Board
from tests.board.execution.hosts.faulty import CALM, Faults, FaultyHost, Weather
from tests.board.execution.hosts.simulated import Run, SimulatedHost, Yard
from tests.repositories import repository

ATTEMPTS, DEADLINE_MS, BACKOFF_MS = 4, 60_000, 1_000
PRINCIPAL, STRANGER = "7", "8"


class Line:
    """One process's line to the store; `lose` makes it lose the answer to a write, and go down."""

    is_far = False

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._losing = self.is_down = False

    def lose(self) -> None:
        self._losing = True

    def revision(self) -> str | None:
        self._check()
        return self._store.revision()

    def read(self) -> LedgerTip:
        self._check()
        return self._store.read()

    def append(self, base: LedgerTip, lines: bytes, *, message: str) -> Appended | LostRace:
        self._check()
        answer = self._store.append(base, lines, message=message)
        if self._losing:
            self._losing, self.is_down = False, True
            raise CallboardError("outcome_unknown", "the line went down", "look for it")
        return answer

    def replace(self, base: LedgerTip, data: bytes, *, message: str) -> Appended | LostRace:
        self._check()
        return self._store.replace(base, data, message=message)

    def ledger_at(self, revision: str) -> bytes:
        return self._store.ledger_at(revision)

    def _check(self) -> None:
        if self.is_down:
            raise CallboardError("remote_unreachable", "the line is down", "mend it")


class MemorySite(Site):
    """A site whose board is in memory; the repository has only what workers would deliver."""

    def __init__(
        self,
        repository: Repository,
        folders: Folders,
        principal: str,
        line: Line,
        clock: FixedClock,
    ) -> None:
        super().__init__(repository, "work-queue", folders, principal, clock=clock, patience_s=5)
        self.publisher = Publisher(line, clock, patience_s=5, pause=lambda _seconds: None)


@dataclass(slots=True)
class Process:
    """A dispatching process that lives; a dead one is forgotten, and its sender with it."""

    site: MemorySite
    line: Line
    dispatcher: Dispatcher
    reconciler: Reconciler


@dataclass(frozen=True, slots=True)
class Ground:
    """What many fields may share: a repository and the user's folders."""

    repository: Repository
    folders: Folders


class Field:
    """A board of some Work, by node key or in full, and whoever works on it."""

    def __init__(
        self, ground: Ground, *works: str | ops.Work, seed: int = 0, faults: Faults = CALM,
        fences: bool = True, profiles: dict[str, records.Profile] | None = None,
    ) -> None:  # fmt: skip
        document = building.with_pool(
            profiles=profiles or {"default": building.profile()},
            retry=records.Retry(max_attempts=3, backoff_ms=BACKOFF_MS),
            reconciliation=records.Reconciliation(max_attempts=ATTEMPTS, deadline_ms=DEADLINE_MS),
        )
        full = [building.work(one) if isinstance(one, str) else one for one in works or ("task",)]
        begun = Board(full, document)
        self._ground = ground
        self.clock = FixedClock(begun.at)
        self.store = MemoryStore(begun.data)
        self.yard = Yard(fences=fences)
        self.weather = Weather(random.Random(seed), faults)
        self.processes: list[Process] = []
        self._requests = 0
        self.watcher = self._site(Line(self.store))
        self.stranger = self._site(Line(self.store), STRANGER)

    def _site(self, line: Line, principal: str = PRINCIPAL) -> MemorySite:
        where = self._ground.repository, self._ground.folders
        return MemorySite(*where, principal, line, self.clock)

    # --- who works on it -----------------------------------------------------------------------

    def process(self) -> Process:
        """One more dispatching process, which lives until `die`."""
        line = Line(self.store)
        site = self._site(line)
        host = FaultyHost(SimulatedHost(self.yard), self.weather)
        dispatcher = Dispatcher(site, {}, lambda _profile: host)
        self.yard.admit(dispatcher.run_id)
        made = Process(site, line, dispatcher, Reconciler(dispatcher))
        self.processes.append(made)
        return made

    def die(self, process: Process) -> None:
        """End a process; what it remembered is gone, and its line with it."""
        self.processes.remove(process)
        self.yard.living.discard(process.dispatcher.run_id)
        process.site.registry.close()

    # --- what they do --------------------------------------------------------------------------

    def grant(self, process: Process, dispatches: int = 1) -> list[str]:
        """Grant what is ready; the new groups."""
        self._requests += 1
        asked = wire.DispatchNextParameters(
            pool="default", max_claims=256, max_dispatches=dispatches, max_bytes=49_152
        )
        name = f"grant-{self._requests}"
        intent = DispatchNext(name, process.site.actor("dispatcher"), asked)
        answer = process.site.publisher.publish(intent)
        if isinstance(answer, Nothing):
            return []
        claims = self.projection.claims
        return list(dict.fromkeys(claims[one].claim.dispatch_id for one in answer.request.claims))

    def mark(self, process: Process, dispatch_id: str) -> None:
        """Record the start marker, and do not send."""
        actor = process.dispatcher.actor
        process.site.publisher.publish(lifecycle.start(dispatch_id, actor, PRINCIPAL))

    @staticmethod
    def launch(process: Process, dispatch_id: str) -> Launch:
        return process.dispatcher.launch(dispatch_id)

    @staticmethod
    def look(process: Process) -> Findings:
        """One pass that starts what was granted."""
        return process.reconciler.run_pass()

    def activate(self, run: Run) -> DispatchState:
        """The run binds itself, as the first of what it does, by the credential that it has."""
        facts = run.facts
        site = self.watcher if facts.principal == PRINCIPAL else self.stranger
        return activate(site, run.dispatch_id, facts.run_id, run_attempt=facts.run_attempt)

    def finish(self, run: Run) -> None:
        """A bound run completes its Claims."""
        state = self.group(run.dispatch_id)
        for member in state.assignment.claims:
            actor = self.watcher.run_actor(
                "worker", workflow=state.profile.workflow, run_id=run.facts.run_id,
                dispatch_id=run.dispatch_id, claim_handle=member.handle,
            )  # fmt: skip
            intent = lifecycle.finish(run.dispatch_id, member.handle, "completed", actor)
            self.watcher.publisher.publish(intent)

    # --- what stands ---------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        return self.watcher.publisher.refresh().projection

    def group(self, dispatch_id: str) -> DispatchState:
        return self.projection.dispatches[dispatch_id]

    def order(self, dispatch_id: str) -> Order:
        return Order.of(self.group(dispatch_id))

    def operations(self, after: int = 0) -> Iterator[tuple[int, ops.Operation]]:
        """The operations from a commit's number on, each with that number."""
        history = self.watcher.publisher.refresh()
        for number in range(after, history.projection.ordinal):
            for operation in history.commit(number).operations:
                yield number, operation


def ground(path: Path) -> Ground:
    """A repository to stand on."""
    made = repository(path / "user")
    return Ground(Repository.discover(made), Folders(path / "config", path / "state"))
