"""Pausing and draining boards whose processes are at work, are killed, or are out of reach."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from callboard.board.board import Board, Folders
from callboard.board.execution.dispatcher import Dispatcher
from callboard.board.execution.reconcile import Reconciler
from callboard.board.protocol import operations as ops
from callboard.board.publishing import lifecycle
from callboard.clock import FixedClock
from callboard.errors import CallboardError
from tests.system.draining import Command, slow
from tests.system.machines import Machines
from tests.system.world import BOTH, CONFIG, World, make_world
from tests.waiting import until

SEND = "callboard.board.execution.dispatcher:Dispatcher._send"
START = "callboard.board.publishing.lifecycle:start"
APPEND = "callboard.board.storage.git:GitStore.append"


def hold(world: World, target: str) -> dict[str, str]:
    """A dispatcher that waits before that step until the file `on` is there."""
    fault = world.fault(target, "before", role="dispatcher")
    return {**fault, "action": "hold", "until": str(world.file("on"))}


def pause(world: World, value: bool = True) -> None:
    with world.open() as board:
        board.set_paused("grants", value, reason="test")


def places(world: World, kind: type[ops.Operation]) -> list[int]:
    """The places in the ledger's order of one kind of operations."""
    return [at for at, one in enumerate(world.operations()) if isinstance(one, kind)]


def paused_at(world: World) -> int:
    (at,) = places(world, ops.Control)
    return at


# --- what a pause stops, and what it does not -----------------------------------------------------


def test_what_runs_goes_on_to_its_result_and_nothing_new_is_granted(world: World) -> None:
    world.submit(slow(world, "a"), {"key": "b", "contract": BOTH})
    process = world.start("serve", workers=1)
    world.wait_for(world.file("a-here"))
    pause(world)
    world.file("go").touch()
    until(lambda: world.works()["a"].barrier == "verified")
    until(lambda: not world.history().projection.open_dispatches)
    process.terminate()
    world.finish(process)
    assert world.works()["b"].state == "available"
    assert max(places(world, ops.Claim)) < paused_at(world)
    for kind in (ops.Completion, ops.Result, ops.Release):
        assert min(places(world, kind)) > paused_at(world)
    pause(world, False)
    world.run()
    world.check_settled()


def test_a_cancellation_and_a_failed_attempt_are_recorded_under_a_pause(world: World) -> None:
    failing = slow(world, "a")
    failing["payload"]["first"][-1] = "cancelled"
    world.submit(failing, slow(world, "b"), {"key": "c"})
    process = world.start("serve", workers=2)
    world.wait_for(world.file("a-here"))
    world.wait_for(world.file("b-here"))
    pause(world)
    with world.open() as board:
        by_key = {state.work.node_key: one for one, state in
                  board.history().projection.works.items()}  # fmt: skip
        board.cancel([by_key["b"], by_key["c"]], reason="not_needed")
        assert len(board.history().projection.open_dispatches) == 2
    world.file("go").touch()
    until(lambda: not world.history().projection.open_dispatches)
    process.terminate()
    world.finish(process)
    states = {key: state.state for key, state in world.works().items()}
    assert states == {"a": "available", "b": "cancelled", "c": "cancelled"}
    world.check_once()


def test_no_way_leads_to_a_start_marker_under_a_pause(world: World) -> None:
    world.submit({"key": "a", "contract": BOTH})
    with world.open() as board:
        board.grant()
        (dispatch_id,) = board.history().projection.open_dispatches
        board.set_paused("grants", True, reason="test")
        dispatcher = Dispatcher(board.site, os.environ)
        with pytest.raises(CallboardError) as refused:
            dispatcher.launch(dispatch_id)
        assert refused.value.code == "grants_paused"
        findings = Reconciler(Dispatcher(board.site, os.environ)).run_pass()
        assert findings.dispatches == {dispatch_id: "grants_paused"}
    assert world.run()["reason"] == "idle"
    assert world.history().projection.dispatches[dispatch_id].state == "reserved"
    assert (world.rows(), world.journal) == ([], [])
    pause(world, False)
    world.run()
    world.check_settled()
    assert (world.works()["a"].attempts, len(world.journal)) == (1, 1)


@pytest.mark.parametrize("verb", ["dispatch", "serve"])
def test_a_pause_between_the_grant_and_the_marker_stops_the_marker(world: World, verb: str) -> None:
    world.submit({"key": "a", "contract": BOTH})
    process = world.start(verb, workers=1, fault=hold(world, START))
    world.wait_for(world.file("killed"))
    pause(world)
    world.file("on").touch()
    if verb == "dispatch":
        _output, complaint = process.communicate(timeout=60)
        assert (process.returncode, b"grants_paused" in complaint) == (1, True)
    else:
        process.terminate()
        assert world.finish(process)["reason"] == "stopped"
    assert [one.state for one in world.history().projection.dispatches.values()] == ["reserved"]
    assert (world.rows(), world.journal) == ([], [])


def test_a_marker_from_before_the_pause_is_sent_once(world: World) -> None:
    world.submit({"key": "a", "contract": BOTH})
    process = world.start("serve", workers=1, fault=hold(world, SEND))
    world.wait_for(world.file("killed"))
    pause(world)
    assert {word for found in world.reconcilers(4, 2) for word in found.values()} == {
        "launch_pending"
    }
    world.file("on").touch()
    until(lambda: world.works()["a"].barrier == "verified")
    process.terminate()
    world.finish(process)
    world.check_settled()
    assert (len(world.journal), len(world.rows())) == (1, 1)


def test_a_sender_whose_answer_was_lost_sends_under_a_pause_and_nobody_else_does(
    world: World,
) -> None:
    world.submit({"key": "a", "contract": BOTH})
    with world.open() as board:
        board.grant()
        (dispatch_id,) = board.history().projection.open_dispatches
        sender = Dispatcher(board.site, os.environ)
        # The marker stands, and its sender does not know it yet.
        board.site.publisher.publish(
            lifecycle.start(dispatch_id, sender.actor, board.site.principal)
        )
        board.set_paused("grants", True, reason="test")
        other = Reconciler(Dispatcher(board.site, os.environ)).run_pass().dispatches
        assert other == {dispatch_id: "launch_pending"}
        assert Reconciler(sender).run_pass().dispatches == {dispatch_id: "launched"}
        again = Reconciler(sender).run_pass().dispatches.get(dispatch_id)
        assert again in (None, "launch_pending", "running", "released")
        until(lambda: world.works()["a"].barrier == "verified")
        until(lambda: not world.supervisors())
        sender.reap()
    world.check_settled()
    assert (len(world.journal), len(world.rows())) == (1, 1)


# --- draining -------------------------------------------------------------------------------------


def test_a_drain_waits_for_what_runs_and_says_so_once(world: World) -> None:
    world.submit(slow(world, "a"), {"key": "b", "contract": BOTH})
    process = world.start("serve", workers=1)
    world.wait_for(world.file("a-here"))
    drain = Command(world, "drain", "--reason", "upgrade")
    drain.wait_for("waits for a: running, since ")
    (run_id,) = (row.run_id for row in world.rows())
    assert str(world.folders.state / "runs" / run_id) in drain.said[0]
    look = Command(world, "drain", "--check", "--json").document(3)
    assert (look["drained"], look["ending"], look["count"]) == (False, "checked", 1)
    assert look["left"][0]["next"] == "callboard drain"
    world.file("go").touch()
    answer = drain.end(0)
    assert answer.startswith("drained: nothing is in flight\n")
    assert "grants: paused, upgrade, since " in answer
    assert len([line for line in drain.said if "a: running" in line]) == 1
    assert world.works()["a"].barrier == "verified"
    assert world.works()["b"].state == "available"
    # Once more, it is drained already, and writes nothing.
    ledger = world.ledger()
    assert Command(world, "drain", "--json").document(0)["pauses"]["grants"]["reason"] == "upgrade"
    assert Command(world, "drain", "--check", "--json").document(0)["drained"]
    assert world.ledger() == ledger
    process.terminate()
    world.finish(process)


def test_time_runs_out_and_the_pause_stands(world: World) -> None:
    world.submit(slow(world, "a"))
    process = world.start("serve", workers=1)
    world.wait_for(world.file("a-here"))
    found = Command(world, "drain", "--timeout", "0", "--json", "--admission").document(3)
    assert (found["ending"], found["count"]) == ("timeout", 1)
    assert found["paused"] == {"admission": True, "grants": True}
    said = Command(world, "drain", "--timeout", "0").end(3)
    assert said.startswith("not drained: time is up, the pause stands: 1 left in flight\n")
    world.file("go").touch()
    assert Command(world, "drain", "--json").document(0)["drained"]
    process.terminate()
    world.finish(process)


@pytest.mark.parametrize(
    ("number", "status", "in_json"), [(signal.SIGINT, 130, False), (signal.SIGTERM, 143, True)]
)
def test_an_interrupted_drain_leaves_the_pause_and_says_so(
    world: World, number: signal.Signals, status: int, in_json: bool
) -> None:
    world.submit(slow(world, "a"))
    process = world.start("serve", workers=1)
    world.wait_for(world.file("a-here"))
    drain = Command(world, "drain", *(["--json"] if in_json else []))
    drain.wait_for("waits for a: running")
    drain.process.send_signal(number)
    answer = drain.end(status)
    if in_json:
        found = json.loads(answer)
        assert (found["ending"], found["paused"]["grants"], found["count"]) == ("stopped", True, 1)
    else:
        assert answer.startswith("stopped before it was drained, the pause stands: 1 left")
    assert world.history().projection.grants_paused
    world.file("go").touch()
    Command(world, "drain").end(0)
    process.terminate()
    world.finish(process)


def test_a_killed_drain_leaves_the_pause_and_the_next_one_goes_on(world: World) -> None:
    world.submit(slow(world, "a"))
    assert len(world.finish(world.start("dispatch", workers=1))["launches"]) == 1
    drain = Command(world, "drain")
    drain.wait_for("waits for a")
    drain.process.kill()
    drain.end(-signal.SIGKILL)
    assert world.history().projection.grants_paused
    world.file("go").touch()
    Command(world, "drain").end(0)
    world.check_settled()
    assert len(world.journal) == 1


def test_somebody_resumes_grants_and_the_drain_gives_way(world: World) -> None:
    world.submit(slow(world, "a"))
    world.finish(world.start("dispatch", workers=1))
    drain = Command(world, "drain", "--json")
    drain.wait_for("waits for a: running")
    pause(world, False)
    found = drain.document(3)
    assert (found["ending"], found["paused"]["grants"]) == ("resumed", False)
    world.file("go").touch()
    world.run()
    world.check_settled()


def test_two_drains_while_four_runners_go_on(world: World) -> None:
    world.submit(*({"key": f"n{number:02}", "contract": BOTH} for number in range(16)))
    runners = [world.start("serve", workers=2) for _number in range(4)]
    until(lambda: len(world.journal) >= 2)
    drains = [Command(world, "drain", "--json") for _number in range(2)]
    found = [drain.document(0) for drain in drains]
    assert [one["drained"] for one in found] == [True, True]
    projection = world.history().projection
    assert not projection.open_dispatches
    assert not projection.pending_deliveries
    assert max(places(world, ops.Claim)) < paused_at(world)
    handed_back = {one["dispatch_id"] for each in found for one in each["handed_back"]}
    for dispatch_id in handed_back:
        assert projection.dispatches[dispatch_id].started_at is None
    pause(world, False)
    until(lambda: all(one.barrier == "verified" for one in world.works().values()), timeout_s=90)
    for process in runners:
        process.terminate()
    for process in runners:
        world.finish(process)
    world.check_settled()


def test_what_was_granted_and_never_started_is_given_back(world: World) -> None:
    world.submit({"key": "a", "contract": BOTH})
    process = world.start("serve", workers=1, fault=hold(world, START))
    world.wait_for(world.file("killed"))
    drain = Command(world, "drain", "--json")
    found = drain.document(0)
    assert [one["names"] for one in found["handed_back"]] == [["a"]]
    assert drain.said == ["given back: a, granted before the pause and never started"]
    # The dispatcher comes too late with its marker.
    world.file("on").touch()
    process.terminate()
    world.finish(process)
    assert (world.rows(), world.journal) == ([], [])
    pause(world, False)
    world.run()
    world.check_settled()
    assert (world.works()["a"].attempts, len(world.journal)) == (2, 1)


def test_a_last_attempt_is_not_given_back_but_left_to_a_person(tmp_path: Path) -> None:
    world = make_world(tmp_path / "world", config=CONFIG.replace("max_attempts = 3",
                                                                 "max_attempts = 1"))  # fmt: skip
    try:
        (work_id,) = world.submit({"key": "a", "contract": BOTH})
        with world.open() as board:
            board.grant()
        found = Command(world, "drain", "--timeout", "0", "--json").document(3)
        assert (found["left"][0]["stage"], found["left"][0]["next"]) == (
            "granted", "callboard cancel a --reason not_started"
        )  # fmt: skip
        with world.open() as board:
            board.cancel([work_id], reason="not_started")
        assert Command(world, "drain", "--json").document(0)["drained"]
    finally:
        world.end()


def test_a_completed_node_whose_run_is_lost_is_settled_by_the_drain(world: World) -> None:
    world.submit({"key": "a", "contract": BOTH})
    fault = world.fault(APPEND, "after", role="supervisor", match="Request: finish_")
    world.run(fault={**fault, "action": "kill_both"})
    until(lambda: not world.supervisors())
    assert world.works()["a"].barrier == "pending"
    look = Command(world, "drain", "--check", "--json").document(3)
    assert {(one["kind"], one["stage"]) for one in look["left"]} == {
        ("run", "terminal"), ("delivery", "completed_pending")
    }  # fmt: skip
    assert Command(world, "drain", "--json").document(0)["drained"]
    world.check_settled()


def test_an_unresolved_launch_keeps_the_drain_pending_until_its_home_proves_its_end(
    world: World,
) -> None:
    world.submit({"key": "a", "contract": BOTH})
    killed = world.fault(SEND, "before", role="dispatcher")
    assert world.finish(world.start("dispatch", workers=1, fault=killed)) is None
    elsewhere = world.root / "elsewhere"
    with world.open() as board:
        now_ms = board.history().projection.last_at
    for later_ms in (0, 400_000):
        clock = FixedClock(now_ms + later_ms)
        folders = Folders(world.folders.config, elsewhere)
        with Board.open(world.path, folders, clock=clock) as board:
            Reconciler(Dispatcher(board.site, os.environ)).run_pass()
    drain = Command(world, "drain", "--timeout", "0", state=elsewhere)
    answer = drain.end(3)
    assert "a: launch unresolved" in answer
    assert "1 unresolved launch keeps the drain pending" in answer
    (dispatch_id,) = world.history().projection.open_dispatches
    assert "next: callboard reconcile" in answer
    assert world.history().projection.dispatches[dispatch_id].state == "unresolved"
    assert Command(world, "drain", "--json").document(0)["drained"]
    assert world.works()["a"].state == "available"


# --- several machines -----------------------------------------------------------------------------


def test_a_drain_from_another_machine_waits_for_the_run_at_home(machines: Machines) -> None:
    one, two = machines.all
    one.submit(slow(one, "a"))
    one.finish(one.start("dispatch", workers=1, environment=one.environment))
    one.wait_for(one.file("a-here"))
    drain = Command(two, "drain", environment=two.environment)
    drain.wait_for("of another machine")
    away = machines.hub.with_name("away")
    machines.hub.rename(away)
    drain.wait_for("waits: the board cannot be settled now (remote_unreachable)")
    away.rename(machines.hub)
    one.file("go").touch()
    assert drain.end(0).startswith("drained: nothing is in flight\n")
    assert one.works()["a"].barrier == "verified"
    offline = Command(two, "drain", "--offline", "--json").document(1)
    assert offline["error"]["code"] == "board_offline"
    look = Command(two, "drain", "--check", "--offline", "--json").document(3)
    assert (look["provenance"], look["drained"], look["left"]) == ("snapshot", False, [])
    said = Command(two, "drain", "--check", "--offline").end(3)
    assert said.startswith("nothing was in flight when the board was last fetched")
    assert "branch work-queue of the remote origin as fetched" in said


def test_a_run_that_ends_while_the_remote_takes_nothing_waits_and_loses_nothing(
    machines: Machines,
) -> None:
    one = machines.all[0]
    one.submit(slow(one, "a"))
    one.finish(one.start("dispatch", workers=1, environment=one.environment))
    one.wait_for(one.file("a-here"))
    hook = machines.hub / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    one.file("go").touch()
    until(lambda: one.rows()[0].notes)
    (note,) = one.rows()[0].notes
    assert str(note["text"]).startswith("push_refused: ")
    assert "push_refused" in Command(one, "explain", "a", environment=one.environment).end(0)
    hook.unlink()
    until(lambda: one.works()["a"].barrier == "verified", timeout_s=120)
    until(lambda: not one.supervisors())
    assert (one.works()["a"].attempts, len(one.journal)) == (1, 1)
