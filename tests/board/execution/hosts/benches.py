"""The bench of the simulated host, bare or behind a line that may be wrapped around it."""

from __future__ import annotations

from collections.abc import Callable

from callboard.board.execution.host import Host, Order, RunFacts, RunStanding
from callboard.board.protocol.policy import Profile
from tests.board import building
from tests.board.execution.hosts.simulated import SAID, SimulatedHost, Yard

UNHEARD_OF = "b" * 40


class SimulatedBench:
    """A yard with runs that begin once they are waited for."""

    said = SAID
    races = 50

    def __init__(self, *, fences: bool, wrap: Callable[[Host], Host] = lambda host: host) -> None:
        self.fences = fences
        self._yard = Yard(fences=fences, lacking={UNHEARD_OF})
        self._yard.admit("77")
        self._wrap = wrap
        self._orders = 0

    def open(self) -> tuple[Host, Host]:
        return self._wrap(SimulatedHost(self._yard)), self._wrap(SimulatedHost(self._yard))

    def order(self) -> Order:
        return self._order("77")

    def foreign(self) -> Order:
        return self._order("78")

    def _order(self, sender: str) -> Order:
        self._orders += 1
        return Order(f"d{self._orders}", building.profile(), "7", sender)

    def unresolvable(self) -> Profile:
        return building.profile(ref=UNHEARD_OF)

    def end(self, order: Order) -> None:
        for run in self._yard.of(order.dispatch_id):
            self._yard.end(run)

    def reach(self, order: Order, run_id: str, standing: RunStanding) -> RunFacts:
        yard = self._yard
        run = yard.run(run_id)
        yard.begin(run)
        if run_id in yard.asked:
            yard.end(run, "cancelled")
        facts = self.open()[0].inspect(order, run_id)
        assert facts.standing == standing
        return facts

    def quiet(self, order: Order) -> None:
        for run in self._yard.of(order.dispatch_id):
            self._yard.begin(run)

    def executions(self, order: Order) -> int:
        return self._yard.executions.count(order.dispatch_id)
