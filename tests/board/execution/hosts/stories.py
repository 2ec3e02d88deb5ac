"""Random histories of a field: who dispatches, looks, dies, runs, ends and intrudes, in any order.

The same seed tells the same story. Nothing here knows what should come of it but `Judge`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from callboard.board.execution.host import Order
from callboard.errors import CallboardError
from tests.board.execution.hosts.faulty import ALL
from tests.board.execution.hosts.field import (
    ATTEMPTS,
    DEADLINE_MS,
    STRANGER,
    Field,
    Ground,
    Process,
)
from tests.board.execution.hosts.judging import Judge
from tests.board.execution.hosts.simulated import Run

EXPECTED = frozenset(
    {
        "host_unreachable", "registry_busy", "outcome_unknown", "remote_unreachable",
        "run_binding_conflict", "rerun_without_authority", "dispatch_released", "claim_closed",
        "dispatch_state_invalid",
    }
)  # fmt: skip
"""What a step may be refused with, by the host, the line or the board."""


@dataclass(slots=True)
class Story:
    """A random history of one field; the same seed tells the same one."""

    field: Field
    judge: Judge
    chance: random.Random

    @classmethod
    def of(cls, ground: Ground, seed: int) -> Story:
        """A field of some nodes with bad weather; every third host cannot rule anything out."""
        fences = seed % 3 != 0
        faults = dict(ALL)
        if not fences:
            # Such a host must not say that what it knows is complete and be out of date.
            faults["find"] = ("request_lost", "answer_lost", "busy")
        keys = [f"k{number}" for number in range(1 + seed % 4)]
        field = Field(ground, *keys, seed=seed, faults=faults, fences=fences)
        return cls(field, Judge(field), random.Random(seed))

    def tell(self, steps: int) -> None:
        """Take so many steps, and judge after each of them."""
        kinds: list[Callable[[], None]] = [
            self.grant, self.look, self.look, self.look, self.mark_and_die, self.die, self.lose,
            self.begin, self.begin, self.activate, self.activate, self.finish, self.end, self.end,
            self.rerun, self.intrude, self.abandon, self.cancel, self.pass_time, self.pass_time,
            self.turn_back, self.deliver, self.launch,
        ]  # fmt: skip
        for _step in range(steps):
            try:
                self.chance.choice(kinds)()
            except CallboardError as error:
                if error.code not in EXPECTED:
                    raise
            self.judge.step()

    def one(self) -> Process:
        """A process that lives, a new one at times."""
        living = self.field.processes
        if not living or (len(living) < 4 and self.chance.random() < 0.2):
            return self.field.process()
        found = self.chance.choice(living)
        found.line.is_down = False
        return found

    def grant(self) -> None:
        process = self.one()
        for dispatch_id in self.field.grant(process, self.chance.randint(1, 3)):
            if self.chance.random() < 0.8:
                self.field.launch(process, dispatch_id)

    def launch(self) -> None:
        """Any process tries to launch any group, whatever became of it."""
        groups = list(self.field.projection.dispatches)
        if groups:
            self.field.launch(self.one(), self.chance.choice(groups))

    def look(self) -> None:
        process, may_start = self.one(), self.chance.random() < 0.7
        process.reconciler.run_pass(lambda: may_start)

    def mark_and_die(self) -> None:
        reserved = [
            one.assignment.dispatch_id
            for one in self.field.projection.dispatches.values()
            if one.state == "reserved" and not one.released
        ]
        if reserved:
            process = self.one()
            self.field.mark(process, self.chance.choice(reserved))
            self.field.die(process)

    def die(self) -> None:
        if len(self.field.processes) > 1:
            self.field.die(self.chance.choice(self.field.processes))

    def lose(self) -> None:
        """The answer to what a process writes next is lost."""
        self.one().line.lose()

    def runs(self, *standings: str) -> list[Run]:
        return [run for run in self.field.yard.runs if run.facts.standing in standings]

    def some(self, *standings: str) -> list[Run]:
        """One of the runs that stand so, or none."""
        found = self.runs(*standings)
        return [self.chance.choice(found)] if found else []

    def begin(self) -> None:
        for run in self.some("queued"):
            self.field.yard.begin(run)
            if self.chance.random() < 0.5:
                self.judge.authority(run, self.field.activate(run))

    def activate(self) -> None:
        for run in self.some("running"):
            self.judge.authority(run, self.field.activate(run))

    def finish(self) -> None:
        for run in self.some("running"):
            bound = self.field.group(run.dispatch_id).run
            if bound is not None and (run.facts.run_id, run.facts.run_attempt) == (bound.run_id, 1):
                self.field.finish(run)

    def end(self) -> None:
        for run in self.some("queued", "running", "abandoned"):
            self.field.yard.end(run, self.chance.choice(["success", "failure"]))

    def rerun(self) -> None:
        if self.chance.random() < 0.5:
            for run in self.some("ended"):
                self.field.yard.rerun(run)

    def intrude(self) -> None:
        """Somebody else begins a run that bears the id of a launch."""
        started = [one for one in self.field.projection.dispatches.values() if one.sender]
        if started and self.chance.random() < 0.2:
            order = Order.of(self.chance.choice(started))
            self.field.yard.begin(self.field.yard.add(order, principal=STRANGER, ours=False))

    def abandon(self) -> None:
        for run in self.some("running"):
            self.field.yard.abandon(run)

    def cancel(self) -> None:
        for run in self.some("running"):
            host = self.one().dispatcher.host_of(self.field.group(run.dispatch_id).profile)
            if host.cancel(self.field.order(run.dispatch_id), run.facts.run_id) == "asked":
                self.field.yard.end(run, "cancelled")

    def pass_time(self) -> None:
        self.field.clock.advance(self.chance.choice([1, 500, 5_000, 40_000]))

    def turn_back(self) -> None:
        self.field.clock.advance(-self.chance.choice([1, 10_000, 3_600_000]))

    def deliver(self) -> None:
        self.field.weather.deliver()

    def conclude(self) -> None:
        """The faults stop, every run ends, the processes of the story die, and others look."""
        field = self.field
        field.weather.clear()
        for process in list(field.processes):
            field.die(process)
        for _round in range(4):
            process = field.process()
            for _look in range(ATTEMPTS + 2):
                for run in field.yard.runs:
                    field.yard.end(run)
                field.look(process)
                self.judge.step()
                field.clock.advance(DEADLINE_MS)
            field.die(process)

    def check_concluded(self) -> None:
        """What could be found out was; of the rest the board says that it could not."""
        field = self.field
        for state in field.projection.dispatches.values():
            if state.released:
                continue
            runs = field.yard.of(state.assignment.dispatch_id)
            assert state.run is None
            assert not [run for run in runs if run.order is not None]
            # Only intruders, which are no evidence of the launch, or a host without fences.
            assert runs or not field.yard.fences
            assert state.state == "unresolved", state.state
            assert state.reason
        assert not field.projection.pending_deliveries
        self.judge.replay()
