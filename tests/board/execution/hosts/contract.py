"""The contract of `Host`: every host's test module inherits it and gives a bench.

It holds for what runs workers anywhere. Where a host cannot rule a launch out, its bench says so,
and then it must never say that it did.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Protocol

import pytest

from callboard.board.execution.host import Host, Order, RunFacts, RunStanding, Sighting
from callboard.board.protocol.policy import Profile
from callboard.errors import CallboardError

# No host has runs of these names; one that takes them for paths or numbers must not fall for it.
HOSTILE = [
    "", "0", "-1", ".", "..", "../1", "1/../1", "/etc/passwd", "1\0", "1\n", "*", "%00", "٣",
    "9" * 39, "9" * 5_000, "é" * 300, "' OR 1=1 --",
]  # fmt: skip


class Bench(Protocol):
    """One host with its store. `open` gives callers of it that share nothing but the store.

    `fences`: it can rule launches out, and lets only one of a dispatch have a run. `said` is what
    each run writes into one of its logs. `races` is how often it is worth letting two calls race.
    """

    @property
    def fences(self) -> bool: ...

    @property
    def said(self) -> bytes: ...

    @property
    def races(self) -> int: ...

    def open(self) -> tuple[Host, Host]: ...

    def order(self) -> Order:
        """One that is to be sent now, by a sender that lives."""
        ...

    def foreign(self) -> Order:
        """One of a sender that this host never heard of."""
        ...

    def unresolvable(self) -> Profile:
        """A profile of this host whose revision it does not have."""
        ...

    def end(self, order: Order) -> None:
        """Let the run of an order end by itself."""
        ...

    def reach(self, order: Order, run_id: str, standing: RunStanding) -> RunFacts:
        """Wait until a run stands so; it does by itself, or because its end was asked for."""
        ...

    def quiet(self, order: Order) -> None:
        """Wait until nothing is under way for an order any more that has no run."""
        ...

    def executions(self, order: Order) -> int:
        """How many runs of an order have executed anything, by their own account."""
        ...


def launched(bench: Bench, host: Host, order: Order) -> str:
    """Send an order, which must succeed; the id of its run, which executes."""
    answer = host.launch(order)
    assert (answer.status, answer.error) == ("launched", None)
    assert answer.run_id is not None
    bench.reach(order, answer.run_id, "running")
    return answer.run_id


class HostContract:
    """What dispatcher and reconciler may rely on, whatever the host."""

    def test_a_profile_resolves_to_what_it_pins(self, bench: Bench) -> None:
        profile = bench.order().profile
        assert {host.resolve(profile) for host in bench.open() * 2} == {profile.ref}

    def test_a_profile_that_is_not_there_is_refused(self, bench: Bench) -> None:
        for host in bench.open():
            with pytest.raises(CallboardError) as refused:
                host.resolve(bench.unresolvable())
            assert refused.value.code == "worker_unavailable"
            assert refused.value.hint

    def test_what_was_not_sent_is_awaited_from_its_sender(self, bench: Bench) -> None:
        order = bench.order()
        for host in bench.open() * 2:
            assert host.find(order) == Sighting((), "pending")
        assert bench.executions(order) == 0

    def test_a_launch_has_exactly_the_run_that_was_ordered(self, bench: Bench) -> None:
        one, other = bench.open()
        order = bench.order()
        run_id = launched(bench, one, order)
        for host in (one, other, one):
            sighting = host.find(order)
            assert (len(sighting.runs), sighting.outlook, sighting.why) == (1, "complete", None)
            assert sighting.runs[0] == host.inspect(order, run_id)
        facts = other.inspect(order, run_id)
        profile = order.profile
        assert (facts.run_id, facts.run_attempt, facts.event) == (run_id, 1, order.event)
        assert (facts.workflow, facts.ref, facts.principal) == (
            profile.workflow, profile.ref, order.principal
        )  # fmt: skip
        assert (facts.standing, facts.conclusion, facts.why) == ("running", None, None)
        assert bench.executions(order) == 1

    def test_a_run_that_has_ended_stays_as_it_ended(self, bench: Bench) -> None:
        one, other = bench.open()
        order = bench.order()
        run_id = launched(bench, one, order)
        bench.end(order)
        ended = bench.reach(order, run_id, "ended")
        assert ended.conclusion
        for host in (one, other) * 2:
            assert host.inspect(order, run_id) == ended
            assert host.find(order) == Sighting((ended,), "complete")
            assert host.cancel(order, run_id) == "ended"
            assert host.rule_out(order) != "ruled_out"
        assert one.inspect(order, run_id) == ended
        assert bench.executions(order) == 1

    def test_a_run_that_it_does_not_know_is_unknown(self, bench: Bench) -> None:
        one, other = bench.open()
        order = bench.order()
        for run_id in HOSTILE:
            for host in (one, other):
                facts = host.inspect(order, run_id)
                assert (facts.run_id, facts.standing, facts.conclusion) == (run_id, "unknown", None)
                assert facts.why
                assert host.cancel(order, run_id) == "unknown"
                assert host.logs(run_id, limit_bytes=10) == ()
        assert one.find(order) == Sighting((), "pending")

    def test_a_run_is_known_by_its_own_dispatch_alone(self, bench: Bench) -> None:
        one, other = bench.open()
        order, second = bench.order(), bench.order()
        run_id = launched(bench, one, order)
        assert other.find(second) == Sighting((), "pending")
        assert other.inspect(second, run_id).standing == "unknown"
        assert other.cancel(second, run_id) == "unknown"
        own = launched(bench, other, second)
        assert own != run_id
        assert [run.run_id for run in one.find(second).runs] == [own]
        assert [run.run_id for run in other.find(order).runs] == [run_id]
        assert one.inspect(order, run_id).standing == "running"

    def test_of_an_order_from_elsewhere_nothing_is_concluded(self, bench: Bench) -> None:
        order = bench.foreign()
        for host in bench.open() * 2:
            sighting = host.find(order)
            assert (sighting.runs, sighting.outlook) == ((), "unknown")
            assert sighting.why
            assert host.rule_out(order) == "unknown"
        assert bench.executions(order) == 0

    def test_what_is_ruled_out_never_runs(self, bench: Bench) -> None:
        one, other = bench.open()
        order = bench.order()
        if not bench.fences:
            assert one.rule_out(order) == "unknown"
            launched(bench, other, order)
            return
        assert [host.rule_out(order) for host in (one, other, one)] == ["ruled_out"] * 3
        assert one.launch(order).status == other.launch(order).status == "taken"
        bench.quiet(order)
        for host in (one, other):
            assert host.find(order) == Sighting((), "ruled_out")
            assert host.rule_out(order) == "ruled_out"
        assert bench.executions(order) == 0

    def test_a_run_cannot_be_ruled_out(self, bench: Bench) -> None:
        one, other = bench.open()
        order = bench.order()
        run_id = launched(bench, one, order)
        assert {host.rule_out(order) for host in (one, other) * 2} <= {"pending", "unknown"}
        assert [run.run_id for run in other.find(order).runs] == [run_id]
        assert one.inspect(order, run_id).standing == "running"

    def test_a_launch_and_its_ruling_out_are_never_both(self, bench: Bench) -> None:
        one, other = bench.open()
        for turn in range(bench.races):
            order = bench.order()
            together = Barrier(2)

            def launch(order: Order = order, together: Barrier = together) -> str | None:
                together.wait()
                return one.launch(order).run_id

            def rule_out(order: Order = order, together: Barrier = together) -> str:
                together.wait()
                return other.rule_out(order)

            with ThreadPoolExecutor(2) as pool:
                first = pool.submit(launch if turn % 2 else rule_out)
                second = pool.submit(rule_out if turn % 2 else launch)
                answers = first.result(), second.result()
            run_id, ruled_out = answers if turn % 2 else answers[::-1]
            if ruled_out == "ruled_out":
                bench.quiet(order)
                assert one.find(order) == Sighting((), "ruled_out")
                assert bench.executions(order) == 0
            else:
                bench.reach(order, str(run_id), "running")
                assert [run.run_id for run in other.find(order).runs] == [run_id]
                assert bench.executions(order) == 1

    def test_an_order_that_is_sent_twice_has_one_run(self, bench: Bench) -> None:
        one, other = bench.open()
        order = bench.order()
        run_id = launched(bench, one, order)
        answers = [host.launch(order).status for host in (one, other)]
        runs = other.find(order).runs
        if not bench.fences:
            # Who may send, and only once, is the board's to decide.
            assert len(runs) == 3
            return
        assert answers == ["taken", "taken"]
        assert [run.run_id for run in runs] == [run_id]
        assert bench.executions(order) == 1

    def test_a_run_whose_end_is_asked_for_ends_in_time(self, bench: Bench) -> None:
        one, other = bench.open()
        order = bench.order()
        run_id = launched(bench, one, order)
        assert other.cancel(order, run_id) == "asked"
        assert one.cancel(order, run_id) in ("asked", "ended")
        ended = bench.reach(order, run_id, "ended")
        assert ended.conclusion not in (None, "success")
        for host in (one, other):
            assert host.cancel(order, run_id) == "ended"
            assert host.inspect(order, run_id) == ended

    @pytest.mark.parametrize("limit_bytes", [0, 1, 10, 1_000_000])
    def test_logs_are_the_ends_of_what_was_said(self, bench: Bench, limit_bytes: int) -> None:
        one, other = bench.open()
        order = bench.order()
        run_id = launched(bench, one, order)
        bench.end(order)
        bench.reach(order, run_id, "ended")
        found = one.logs(run_id, limit_bytes=limit_bytes)
        assert found == other.logs(run_id, limit_bytes=limit_bytes)
        names = [log.name for log in found]
        assert names == sorted(names)
        assert all("/" not in name for name in names)
        whole = {log.name: log for log in one.logs(run_id, limit_bytes=1_000_000)}
        assert bench.said in {log.data for log in whole.values()}
        for log in found:
            full = whole[log.name].data
            assert log.data == full[max(0, len(full) - limit_bytes) :]
            assert log.is_cut == (len(full) > limit_bytes)
