"""A coordinator that is killed, stopped or asked to pause while a harness is at work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.layers import tree
from callboard.layers.around import of_machine
from callboard.layers.layers import Layers
from callboard.layers.records.attempt import AttemptProcess, AttemptResult
from callboard.layers.results import read_process, read_result
from tests.layers.machine import write_set
from tests.repositories import repository
from tests.waiting import until

CALLBOARD = Path(sys.executable).with_name("callboard")
AT_WORK = "echo $$ >> started.log; while [ ! -e go.log ]; do sleep 0.05; done; echo done > part.log"
"""Until it is told to go on; `*.log` is ignored by Git."""


class Run:
    """A tree of one layer, whose only attempt waits for the file `go.log`."""

    def __init__(self, folder: Path, recovery: str) -> None:
        self.root = repository(folder / "repository")
        # Whatever comes of the attempt, the tree is over after it.
        write_set(
            self.root,
            caps={"max_turns": 1, "max_role_failures": 1},
            # What it starts outlives a runner that is killed; the harness itself does not.
            command=["sh", "-c", 'sh -c "$0"; exit $?', AT_WORK],
            recovery=recovery,
        )
        self.around = of_machine(self.root, dict(os.environ))
        self.layers = Layers(self.around)
        self.layers.start("Wait", workflow_set="all", completion_criteria=["it was waited"])
        self.started: list[subprocess.Popen[str]] = []

    def coordinate(self) -> subprocess.Popen[str]:
        """Start a coordinator, as a user does."""
        process = subprocess.Popen(
            [CALLBOARD, "layers", "run", "--json"],
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def at_work(self) -> int:
        """What the harness has started, once it is at work."""
        log = self.root / "started.log"
        until(lambda: log.exists() and log.read_text().endswith("\n"))
        [pid] = log.read_text().split()
        return int(pid)

    def go(self) -> None:
        """Let the harness end by itself."""
        (self.root / "go.log").touch()

    @property
    def process(self) -> AttemptProcess:
        """Who carries the attempt out."""
        found = read_process(self.around.disk, tree.root(self.around.disk), "0001_worker")
        assert found is not None
        return found

    @property
    def result(self) -> AttemptResult | None:
        """How the attempt ended."""
        return read_result(self.around.disk, tree.root(self.around.disk), "0001_worker")

    def ended(self, process: subprocess.Popen[str], status: int) -> dict[str, Any]:
        """What a coordinator said that ended so."""
        out, err = process.communicate(timeout=60)
        assert process.returncode == status, (out, err)
        document = json.loads(out or err)
        assert isinstance(document, dict)
        return document

    def finish(self) -> str:
        """Coordinate to the end; the reason of it."""
        step = self.ended(self.coordinate(), 1)["step"]
        assert step["did"] == "over"
        # Once, whatever came between.
        assert len((self.root / "started.log").read_text().split()) == 1
        assert self.layers.check() == ()
        return str(step["detail"])


@pytest.fixture
def made(tmp_path: Path) -> Iterator[list[Run]]:
    runs: list[Run] = []
    yield runs
    for run in runs:
        run.go()
        for process in run.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()


@pytest.fixture
def run(tmp_path: Path, made: list[Run]) -> Run:
    made.append(Run(tmp_path, "reap"))
    return made[0]


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_killed_coordinator_takes_nothing_with_it(run: Run) -> None:
    coordinator = run.coordinate()
    harness = run.at_work()
    coordinator.kill()
    coordinator.wait()
    assert is_alive(harness)
    second = run.coordinate()
    run.go()
    assert run.ended(second, 1)["step"]["detail"] == "max_turns"
    assert run.result is not None
    assert run.result.classification == "success"
    assert run.finish() == "max_turns"


def test_ctrl_c_pauses_and_the_next_run_takes_the_result(run: Run) -> None:
    coordinator = run.coordinate()
    harness = run.at_work()
    coordinator.send_signal(signal.SIGINT)
    assert run.ended(coordinator, 3)["step"]["did"] == "paused"
    assert is_alive(harness)
    assert run.result is None
    run.go()
    until(lambda: run.result)
    assert run.finish() == "max_turns"
    [node] = run.layers.status()
    assert node.state.roles["worker"].successes == 1


def test_a_second_coordinator_is_refused_while_the_first_stands_still(run: Run) -> None:
    first = run.coordinate()
    run.at_work()
    first.send_signal(signal.SIGSTOP)
    until(lambda: " T " in Path(f"/proc/{first.pid}/stat").read_text())
    error = run.ended(run.coordinate(), 4)["error"]
    assert error["code"] == "coordinator_busy"
    assert error["details"]["pid"] == first.pid
    assert run.layers.check() == ()
    first.send_signal(signal.SIGCONT)
    run.go()
    assert run.ended(first, 1)["step"]["detail"] == "max_turns"


@pytest.mark.parametrize("recovery", ["reap", "drain"])
def test_coordinator_and_runner_killed_at_once(
    tmp_path: Path, made: list[Run], recovery: str
) -> None:
    made.append(Run(tmp_path, recovery))
    [run] = made
    coordinator = run.coordinate()
    harness = run.at_work()
    os.kill(coordinator.pid, signal.SIGKILL)
    os.kill(run.process.runner.pid, signal.SIGKILL)
    coordinator.wait()
    second = run.coordinate()
    if recovery == "drain":
        # What is drained may end by itself, and only then the layer goes on.
        until(lambda: run.layers.status()[0].state.task is not None)
        assert is_alive(harness)
        run.go()
    assert run.ended(second, 1)["step"]["detail"] == "role_failures"
    assert not is_alive(harness)
    assert (run.root / "part.log").exists() == (recovery == "drain")
    assert run.result is not None
    assert (run.result.classification, run.result.detail) == ("unknown", "runner_died")
    [node] = run.layers.status()
    assert (node.state.own_usage.attempts, node.state.iteration) == (1, 1)
    assert run.finish() == "role_failures"


@pytest.mark.parametrize("paused", [False, True])
def test_stop_now_ends_the_harness_as_well(run: Run, paused: bool) -> None:
    coordinator = run.coordinate()
    harness = run.at_work()
    if paused:
        coordinator.send_signal(signal.SIGTERM)
        run.ended(coordinator, 3)
        assert is_alive(harness)
    subprocess.run(
        [CALLBOARD, "layers", "stop", "--now", "--reason", "enough"],
        cwd=run.root,
        check=True,
        capture_output=True,
    )
    if paused:
        until(lambda: run.result)
        coordinator = run.coordinate()
    assert run.ended(coordinator, 1)["step"]["detail"] == "user_stop"
    assert not is_alive(harness)
    assert run.result is not None
    assert (run.result.classification, run.result.detail) == ("crash", "stopped")
    assert run.finish() == "user_stop"


def test_stop_lets_the_attempt_at_work_end(run: Run) -> None:
    coordinator = run.coordinate()
    harness = run.at_work()
    subprocess.run(
        [CALLBOARD, "layers", "stop", "--reason", "enough"],
        cwd=run.root,
        check=True,
        capture_output=True,
    )
    assert is_alive(harness)
    assert coordinator.poll() is None
    run.go()
    assert run.ended(coordinator, 1)["step"]["detail"] == "user_stop"
    assert run.result is not None
    assert run.result.classification == "success"
    assert run.finish() == "user_stop"


def test_ctrl_c_ends_the_wait_for_what_a_dead_runner_left(tmp_path: Path, made: list[Run]) -> None:
    run = Run(tmp_path, "drain")
    made.append(run)
    first = run.coordinate()
    harness = run.at_work()
    first.kill()
    first.wait()
    os.kill(run.process.runner.pid, signal.SIGKILL)
    until(lambda: not is_alive(run.process.runner.pid))
    second = run.coordinate()
    holder = run.root / ".callboard" / "layers" / "coordinator.json"
    until(lambda: holder.exists() and json.loads(holder.read_bytes())["pid"] == second.pid)
    second.send_signal(signal.SIGINT)
    assert run.ended(second, 3)["step"]["did"] == "paused"
    assert is_alive(harness)
    assert run.result is None
    run.go()
    assert run.finish() in ("max_turns", "role_failures")
    assert run.result is not None
    assert run.result.detail == "runner_died"
