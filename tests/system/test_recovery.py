"""`callboard reconcile` and `callboard stop` on a real board, with real processes that die."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.board.execution.recovery import Found
from callboard.clock import Clock
from callboard.errors import CallboardError
from tests.system.world import World, make_world
from tests.waiting import until

APPEND = "callboard.board.storage.git:GitStore.append"
PREPARE = "callboard.board.execution.hosts.local.registry:RunRegistry.prepare"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path)
    yield made
    made.end()


class Later(Clock):
    """The system's time, moved on."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        from callboard.clock import SystemClock

        return SystemClock().now_ms() + self._by_ms


def reconcile(world: World, *, start: bool = True, by_ms: int = 0) -> list[Found]:
    """One look through the façade, at a later time if asked."""
    from callboard.board.board import Board

    with Board.open(world.path, world.folders, clock=Later(by_ms)) as board:
        return board.reconcile(
            os.environ, start=start, stop=threading.Event(), on_found=lambda _found: None
        )


def words(found: list[Found]) -> list[tuple[str, str, str]]:
    return [(one.kind, one.word, one.needs) for one in found]


def spoken(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command itself."""
    return subprocess.run(
        [sys.executable, "-m", "callboard", "--repo", str(world.path), *arguments],
        env={
            **os.environ,
            "CALLBOARD_CONFIG_DIR": str(world.folders.config),
            "CALLBOARD_STATE_DIR": str(world.folders.state),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def running(world: World) -> subprocess.Popen[bytes]:
    """A dispatcher whose worker waits for the file `go`."""
    world.submit(
        {"key": "task", "payload": {"first": [f"await {world.file('go')}", "deliver", "completed"]}}
    )
    process = world.start()
    until(lambda: world.journal)
    return process


def put_aside(world: World) -> Path:
    """Take this machine's record of runs away."""
    return world.folders.state.rename(world.folders.state.with_name("aside"))


def put_back(world: World, aside: Path) -> None:
    """Bring it back, in the place of the empty one that was made meanwhile."""
    shutil.rmtree(world.folders.state)
    aside.rename(world.folders.state)


def test_what_was_granted_and_never_started_is_started_once_unless_told_not_to(
    world: World,
) -> None:
    world.submit({"key": "task"})
    fault = world.fault(APPEND, "after", role="dispatcher", match="dispatch_next: ")
    assert world.run(fault=fault) is None
    assert words(reconcile(world, start=False)) == [("launch", "waiting_for_slot", "person")]
    assert world.rows() == []
    assert words(reconcile(world)) == [("launch", "launched", "time")]
    until(lambda: not reconcile(world))
    assert (world.works()["task"].attempts, len(world.journal)) == (1, 1)


def test_a_marker_that_was_never_sent_is_ruled_out_and_tried_again(world: World) -> None:
    world.submit({"key": "task"})
    assert world.run(fault=world.fault(PREPARE, "before", role="dispatcher")) is None
    assert words(reconcile(world)) == [("launch", "released", "settled")]
    world.run()
    world.check_settled()
    assert (world.works()["task"].attempts, len(world.journal)) == (2, 1)


def test_without_the_record_of_runs_a_launch_is_uncertain_then_unresolved_and_keeps_its_place(
    world: World,
) -> None:
    world.submit({"key": "task"})
    assert world.run(fault=world.fault(PREPARE, "before", role="dispatcher")) is None
    aside = put_aside(world)
    (found,) = reconcile(world)
    assert (found.word, found.state, found.reason) == (
        "launch_uncertain", "uncertain", "sender_unknown_here",
    )  # fmt: skip
    answer = spoken(world, "reconcile", "--json")
    assert answer.returncode == 0, answer
    (found,) = reconcile(world, by_ms=300_001)
    assert (found.word, found.state, found.needs) == (
        "launch_unresolved", "unresolved", "person",
    )  # fmt: skip
    answer = spoken(world, "reconcile", "--json")
    assert answer.returncode == 3
    (document,) = json.loads(answer.stdout)["found"]
    assert (document["found"], document["names"]) == ("launch_unresolved", ["task"])
    assert document["next"]
    assert world.history().projection.counters.unreleased == 1
    # The evidence comes back, and with it the proof.
    put_back(world, aside)
    answer = spoken(world, "reconcile")
    assert (answer.returncode, "settled" in answer.stdout) == (0, True)
    assert world.history().projection.counters.unreleased == 0
    assert (world.works()["task"].state, world.journal) == ("available", [])
    assert [row.state for row in world.rows()] == ["void"]


def test_a_bound_run_of_another_machine_is_left_alone_and_named(world: World) -> None:
    process = running(world)
    aside = put_aside(world)
    (found,) = reconcile(world)
    assert (found.word, found.state, found.needs) == ("run_unknown_here", "bound", "person")
    with world.open() as board, pytest.raises(CallboardError) as refused:
        board.stop_run(found.dispatch_id)
    assert refused.value.code == "run_unknown_here"
    put_back(world, aside)
    world.file("go").touch()
    world.finish(process)
    world.check_settled()


def test_a_stopped_run_ends_as_a_failed_attempt_and_is_tried_again(world: World) -> None:
    process = running(world)
    answer = spoken(world, "stop", "task", "--json")
    document = json.loads(answer.stdout)
    assert (answer.returncode, document["status"], document["names"]) == (0, "asked", ["task"])
    until(lambda: world.works()["task"].attempts == 2 or world.works()["task"].state == "available")
    world.file("go").touch()
    world.finish(process)
    world.check_settled()
    assert [row.conclusion for row in world.rows()] == ["stopped", "success"]
    assert world.works()["task"].attempts == 2


def test_the_run_of_a_cancelled_node_is_stopped_by_the_name_of_the_node(world: World) -> None:
    process = running(world)
    assert spoken(world, "cancel", "task", "--reason", "not_needed").returncode == 0
    answer = spoken(world, "stop", "task", "--json")
    assert (answer.returncode, json.loads(answer.stdout)["status"]) == (0, "asked")
    world.finish(process)
    world.check_settled()
    assert [row.conclusion for row in world.rows()] == ["stopped"]
    assert world.works()["task"].state == "cancelled"


def test_what_keeps_the_board_from_being_written_ends_a_look_and_a_run_with_what_to_do(
    world: World,
) -> None:
    world.submit({"key": "task"})
    fault = world.fault(APPEND, "after", role="dispatcher", match="dispatch_next: ")
    assert world.run(fault=fault) is None
    lock = world.path / ".git" / "refs" / "heads" / "work-queue.lock"
    lock.touch()
    os.utime(lock, (0, 0))
    for verb in (["reconcile"], ["run", "--until-idle"], ["run"]):
        answer = spoken(world, *verb, "--json")
        error = json.loads(answer.stdout.splitlines()[-1])["error"]
        assert (answer.returncode, error["code"]) == (1, "ref_locked")
        assert str(lock) in error["hint"]
    lock.unlink()
    world.run()
    world.check_settled()
    assert (world.works()["task"].attempts, len(world.journal)) == (1, 1)


def test_a_stop_is_refused_where_nothing_runs(world: World) -> None:
    world.submit({"key": "task"})

    def refusal(*arguments: str) -> dict[str, Any]:
        answer = spoken(world, "stop", *arguments, "--json")
        assert answer.returncode == 1
        error: dict[str, Any] = json.loads(answer.stdout)["error"]
        return error

    assert refusal("task")["code"] == "nothing_running"
    assert world.run(fault=world.fault(PREPARE, "before", role="dispatcher")) is None
    dispatch_id = next(iter(world.history().projection.dispatches))
    assert refusal("task")["code"] == "run_unbound"
    world.run()
    assert refusal("--dispatch", dispatch_id)["code"] == "dispatch_released"
    assert spoken(world, "stop").returncode == 2
    assert spoken(world, "stop", "task", "--dispatch", dispatch_id).returncode == 2


def test_a_watch_goes_on_until_it_is_told_to_stop(world: World) -> None:
    process = running(world)
    watch = subprocess.Popen(
        [sys.executable, "-m", "callboard", "--repo", str(world.path), "reconcile", "--watch"],
        env={
            **os.environ,
            "CALLBOARD_CONFIG_DIR": str(world.folders.config),
            "CALLBOARD_STATE_DIR": str(world.folders.state),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watch.stderr is not None
    assert watch.stderr.readline() == "  task: under way\n"
    (supervisor,) = world.supervisors()
    process.kill()
    process.wait()
    supervisor.kill()
    assert "its place is free" in watch.stderr.readline()
    watch.send_signal(signal.SIGTERM)
    output, _complaint = watch.communicate(timeout=30)
    assert (watch.returncode, output) == (0, "nothing is open\n")
    world.file("go").touch()
    world.run()
    world.check_settled()


def test_a_board_that_does_not_exist_yet_has_nothing_open(world: World) -> None:
    answer = spoken(world, "reconcile")
    assert (answer.returncode, answer.stdout) == (0, "nothing is open\n")
