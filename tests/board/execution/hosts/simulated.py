"""A host in memory whose runs do what a test says: the whole port, and nothing by itself.

The `Yard` is the far side that all its instances share; a test begins and ends runs there.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from callboard.board.execution.host import (
    CancelAnswer,
    LaunchAnswer,
    Log,
    Order,
    RuledOut,
    RunFacts,
    Sighting,
)
from callboard.board.protocol.policy import Profile
from callboard.errors import CallboardError

SAID = b"a line that a run says\n"
UNFENCED = "launches_unfenced"


@dataclass(slots=True)
class Run:
    """One attempt of one run; `order` is what it was launched by, None for an intruder."""

    dispatch_id: str
    facts: RunFacts
    order: Order | None = None

    @property
    def is_over(self) -> bool:
        return self.facts.standing == "ended"


@dataclass(slots=True)
class Yard:
    """The runs of a simulated host, and which senders it knows and takes to be alive.

    `fences`: it lets only one launch of a dispatch have a run, and can rule that one out.
    `answer` is what it says to launches instead of beginning anything.
    """

    fences: bool = True
    senders: set[str] = field(default_factory=set)
    living: set[str] = field(default_factory=set)
    runs: list[Run] = field(default_factory=list)
    ruled_out: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    executions: list[str] = field(default_factory=list)
    lacking: set[str] = field(default_factory=set)
    answer: LaunchAnswer | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    asked: set[str] = field(default_factory=set)

    def admit(self, sender: str) -> None:
        """Know a sender from now on, which lives."""
        self.senders.add(sender)
        self.living.add(sender)

    def of(self, dispatch_id: str) -> list[Run]:
        """Every run that bears the dispatch id."""
        return [run for run in self.runs if run.dispatch_id == dispatch_id]

    def run(self, run_id: str) -> Run:
        """The first attempt of that run."""
        return next(run for run in self.runs if run.facts.run_id == run_id)

    def add(self, order: Order, *, principal: str | None = None, ours: bool = True) -> Run:
        """A queued run; an intruder bears the dispatch id, and nobody's order made it."""
        facts = RunFacts(
            str(1_000 + len(self.runs)),
            1,
            order.profile.workflow,
            order.profile.ref,
            order.principal if principal is None else principal,
            order.event,
            "queued",
        )
        run = Run(order.dispatch_id, facts, order if ours else None)
        self.runs.append(run)
        return run

    def begin(self, run: Run) -> None:
        """Let a queued run execute."""
        if run.facts.standing == "queued":
            run.facts = replace(run.facts, standing="running")
            self.executions.append(run.dispatch_id)

    def end(self, run: Run, conclusion: str = "success") -> None:
        """End a run; the first conclusion stands."""
        if not run.is_over:
            run.facts = replace(run.facts, standing="ended", conclusion=conclusion)

    def abandon(self, run: Run) -> None:
        """Take away who watched over a run."""
        if run.facts.standing == "running":
            run.facts = replace(run.facts, standing="abandoned")

    def rerun(self, run: Run) -> Run:
        """Begin the next attempt of a run that has ended."""
        attempts = [one for one in self.runs if one.facts.run_id == run.facts.run_id]
        facts = replace(
            run.facts, run_attempt=1 + len(attempts), standing="running", conclusion=None
        )
        again = Run(run.dispatch_id, facts)
        self.runs.append(again)
        return again


class SimulatedHost:
    """One caller's way to the yard."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard

    def resolve(self, profile: Profile) -> str:
        if profile.ref in self._yard.lacking:
            raise CallboardError(
                "worker_unavailable", f"{profile.ref[:12]} is not here", "bring that commit here"
            )
        return profile.ref

    def launch(self, order: Order) -> LaunchAnswer:
        yard = self._yard
        with yard.lock:
            if order.sender_run_id not in yard.senders:
                unknown = CallboardError(
                    "sender_unknown", "that sender was never here", "send from where it is"
                )
                return LaunchAnswer("uncertain", None, unknown)
            if yard.fences and self._is_taken(order.dispatch_id):
                return LaunchAnswer("taken")
            if yard.answer is not None:
                if yard.answer.status == "refused":
                    yard.refused.add(order.dispatch_id)
                return yard.answer
            return LaunchAnswer("launched", yard.add(order).facts.run_id)

    def _is_taken(self, dispatch_id: str) -> bool:
        ours = [run for run in self._yard.of(dispatch_id) if run.order is not None]
        return dispatch_id in self._yard.ruled_out or bool(ours)

    def find(self, order: Order) -> Sighting:
        yard = self._yard
        with yard.lock:
            runs = tuple(run.facts for run in yard.of(order.dispatch_id))
            if runs:
                return Sighting(runs, "complete")
            if order.dispatch_id in yard.ruled_out:
                return Sighting((), "ruled_out")
            if order.sender_run_id not in yard.senders:
                return Sighting((), "unknown", "sender_unknown_here")
            if order.sender_run_id in yard.living:
                return Sighting((), "pending")
            return Sighting((), "complete") if yard.fences else Sighting((), "unknown", UNFENCED)

    def inspect(self, order: Order, run_id: str) -> RunFacts:
        with self._yard.lock:
            found = self._first(order, run_id)
            if found is not None:
                return found.facts
            profile = order.profile
            return RunFacts(
                run_id, 1, profile.workflow, profile.ref, "", order.event, "unknown",
                why="run_unknown_here",
            )  # fmt: skip

    def _first(self, order: Order, run_id: str) -> Run | None:
        runs = self._yard.of(order.dispatch_id)
        wanted = (run_id, 1)
        return next(
            (one for one in runs if (one.facts.run_id, one.facts.run_attempt) == wanted), None
        )

    def rule_out(self, order: Order) -> RuledOut:
        yard = self._yard
        with yard.lock:
            if not yard.fences or order.sender_run_id not in yard.senders:
                return "unknown"
            if order.dispatch_id in yard.ruled_out:
                return "ruled_out"
            if self._is_taken(order.dispatch_id):
                return "pending"
            yard.ruled_out.add(order.dispatch_id)
            return "ruled_out"

    def cancel(self, order: Order, run_id: str) -> CancelAnswer:
        with self._yard.lock:
            found = self._first(order, run_id)
            if found is None:
                return "unknown"
            if found.facts.standing == "abandoned":
                self._yard.end(found, "supervisor_lost")
            if found.is_over:
                return "ended"
            self._yard.asked.add(run_id)
            return "asked"

    def logs(self, run_id: str, *, limit_bytes: int) -> tuple[Log, ...]:
        with self._yard.lock:
            if all(run.facts.run_id != run_id for run in self._yard.runs):
                return ()
            cut = len(SAID) > limit_bytes
            tail = SAID[-limit_bytes:] if limit_bytes else b""
            return (Log("supervisor.log", b""), Log("worker.stdout.log", tail, cut))
