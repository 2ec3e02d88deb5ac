"""The host behind a bad line: the contract under a calm sky, and each fault as it says."""

from __future__ import annotations

import random

import pytest

from callboard.board.execution.host import LaunchAnswer, Sighting
from tests.board.building import refused
from tests.board.execution.hosts.benches import SimulatedBench
from tests.board.execution.hosts.contract import Bench, HostContract
from tests.board.execution.hosts.faulty import ALL, CALM, UNREACHABLE, Fault, FaultyHost, Weather


class TestFaultyHostInCalmWeather(HostContract):
    @pytest.fixture(params=[True, False], ids=["fenced", "unfenced"])
    def bench(self, request: pytest.FixtureRequest) -> Bench:
        weather = Weather(random.Random(1), CALM)
        return SimulatedBench(fences=request.param, wrap=lambda host: FaultyHost(host, weather))


def stormy(call: str, fault: Fault, *, fences: bool = False) -> tuple[SimulatedBench, Weather]:
    """A bench whose every such call meets that one fault."""
    weather = Weather(random.Random(1), {call: (fault,)}, one_in=1)
    return SimulatedBench(fences=fences, wrap=lambda host: FaultyHost(host, weather)), weather


def test_a_lost_request_is_not_carried_out() -> None:
    bench, weather = stormy("launch", "request_lost")
    host, order = bench.open()[0], bench.order()
    assert refused(host.launch, order).code == UNREACHABLE
    weather.clear()
    assert host.find(order) == Sighting((), "pending")


def test_a_lost_answer_belongs_to_a_call_that_was_carried_out() -> None:
    bench, _weather = stormy("launch", "answer_lost")
    host, order = bench.open()[0], bench.order()
    assert refused(host.launch, order).code == UNREACHABLE
    assert len(host.find(order).runs) == 1


def test_a_late_request_arrives_after_what_was_asked_later() -> None:
    bench, weather = stormy("launch", "late", fences=True)
    host, order = bench.open()[0], bench.order()
    assert refused(host.launch, order).code == UNREACHABLE
    assert host.rule_out(order) == "ruled_out"
    weather.clear()
    assert host.find(order) == Sighting((), "ruled_out")
    bench, weather = stormy("launch", "late")
    host, order = bench.open()[0], bench.order()
    assert refused(host.launch, order).code == UNREACHABLE
    weather.clear()
    assert len(host.find(order).runs) == 1


def test_a_doubled_launch_has_two_runs_where_the_host_lets_it() -> None:
    bench, _weather = stormy("launch", "doubled")
    host, order = bench.open()[0], bench.order()
    assert host.launch(order).status == "launched"
    assert len(host.find(order).runs) == 2
    bench, _weather = stormy("launch", "doubled", fences=True)
    host, order = bench.open()[0], bench.order()
    assert host.launch(order).status in ("launched", "taken")
    assert len(host.find(order).runs) == 1


def test_an_outdated_answer_was_true_once() -> None:
    weather = Weather(random.Random(1), CALM, one_in=1)
    bench = SimulatedBench(fences=True, wrap=lambda host: FaultyHost(host, weather))
    host, order = bench.open()[0], bench.order()
    before = host.find(order)
    assert isinstance(host.launch(order), LaunchAnswer)
    weather.faults = {"find": ("outdated",)}
    assert host.find(order) == before
    weather.clear()
    assert len(host.find(order).runs) == 1


def test_what_meets_a_fault_is_decided_by_the_seed() -> None:
    def told(seed: int) -> list[Fault | None]:
        weather = Weather(random.Random(seed), ALL)
        return [weather.fault(call) for call in sorted(ALL) * 50]

    assert told(1) == told(1)
    assert told(1) != told(2)
    assert {fault for fault in told(1) if fault} == {
        fault for known in ALL.values() for fault in known
    }
