"""The local host keeps the contract: real supervisors on a real board, asked by two processes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from callboard.board.execution.dispatcher import Dispatcher
from callboard.board.execution.host import Host, Order, RunFacts, RunStanding
from callboard.board.execution.hosts.local.host import LocalHost, reap
from callboard.board.protocol.policy import Profile
from callboard.board.publishing import lifecycle
from callboard.board.publishing.intents import Nothing
from callboard.board.publishing.plan import parse_plan
from tests.board.execution.hosts.contract import Bench, HostContract
from tests.board.execution.hosts.local.elsewhere import HostElsewhere
from tests.board.execution.hosts.local.waiter import SAID
from tests.system.world import World, make_world, recipe
from tests.waiting import until

WAITER = [sys.executable, str(Path(__file__).with_name("waiter.py"))]


class LocalBench:
    """One repository with a board, whose runs wait for a file of their own."""

    fences = True
    said = SAID
    races = 2

    def __init__(self, world: World) -> None:
        self._world = world
        self._board = world.open()
        self._dispatcher = Dispatcher(self._board.site, os.environ)
        self._host = LocalHost(self._board.site, os.environ)
        self._elsewhere = HostElsewhere(world.path, world.folders)
        self._orders: list[Order] = []

    def open(self) -> tuple[Host, Host]:
        return self._host, self._elsewhere

    def order(self) -> Order:
        """Submitted, granted and marked as started by this process, which does not send it."""
        number = len(self._orders)
        payload = {
            "go": str(self._world.file(f"go-{number}")),
            "journal": str(self._world.file("executions")),
        }
        node = {"key": f"task-{number}", "payload": payload}
        plan = parse_plan(json.loads(json.dumps({"graph": "g", "nodes": [node]})))
        self._board.submit(plan)
        answer = self._board.grant(max_claims=1)
        assert not isinstance(answer, Nothing)
        site = self._board.site
        projection = site.publisher.refresh().projection
        dispatch_id = projection.claims[answer.request.claims[0]].claim.dispatch_id
        marker = lifecycle.start(dispatch_id, self._dispatcher.actor, site.principal)
        assert not isinstance(site.publisher.publish(marker), Nothing)
        state = site.publisher.refresh().projection.dispatches[dispatch_id]
        self._orders.append(Order.of(state))
        return self._orders[-1]

    def foreign(self) -> Order:
        """The order of a dispatcher that is in another machine's registry."""
        return Order("d0", self.order().profile, "7", "12345")

    def unresolvable(self) -> Profile:
        return structs.replace(self.order().profile, ref="b" * 40)

    def end(self, order: Order) -> None:
        self._world.file(f"go-{self._orders.index(order)}").touch()

    def reach(self, order: Order, run_id: str, standing: RunStanding) -> RunFacts:
        until(lambda: self._host.inspect(order, run_id).standing == standing, timeout_s=120)
        if standing == "running":
            until(lambda: self.executions(order) == 1, timeout_s=120)
        return self._host.inspect(order, run_id)

    def quiet(self, order: Order) -> None:
        def is_quiet() -> bool:
            reap()
            commands = (process.cmdline() for process in self._world.supervisors())
            return all(order.dispatch_id not in words for words in commands)

        until(is_quiet, timeout_s=120)

    def executions(self, order: Order) -> int:
        journal = self._world.file("executions")
        return journal.read_text().split().count(order.dispatch_id) if journal.exists() else 0

    def close(self) -> None:
        """Leave no run, no process and no open file."""
        for order in self._orders:
            self.end(order)
        until(lambda: not self._world.supervisors(), timeout_s=120)
        reap()
        self._elsewhere.close()
        self._board.close()


class TestLocalHost(HostContract):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        world = make_world(tmp_path / "world", recipes={"default": recipe(WAITER)})
        made = LocalBench(world)
        yield made
        made.close()
        world.end()
