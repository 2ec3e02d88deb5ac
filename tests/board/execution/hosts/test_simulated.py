"""The host in memory keeps the contract, whether or not it can rule launches out."""

from __future__ import annotations

import pytest

from tests.board.execution.hosts.benches import SimulatedBench
from tests.board.execution.hosts.contract import Bench, HostContract


class TestSimulatedHost(HostContract):
    @pytest.fixture(params=[True, False], ids=["fenced", "unfenced"])
    def bench(self, request: pytest.FixtureRequest) -> Bench:
        return SimulatedBench(fences=request.param)
