"""Runners and coordinators that are killed at every point: the harness is executed at most once."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.git import Git
from callboard.layers.awaiting import carry_out
from callboard.layers.records.attempt import AttemptResult
from callboard.layers.records.evaluation import GitSubject
from callboard.layers.results import read_process
from callboard.processes import members
from callboard.processes.identity import ProcessIdentity, current, of, state
from tests import repositories
from tests.ambient import DEEP
from tests.board.building import refused
from tests.ended import ending
from tests.layers import trees
from tests.layers.attempting import ROOT, Attempt
from tests.waiting import until

__all__ = ["ending"]

# Each execution leaves a file with its process id; then it waits for the file `go`.
HARNESS = 'echo >"$0/ran.$$"; while [ ! -e "$0/go" ]; do sleep 0.02; done; echo end'


class Scene:
    """An attempt whose executions can be counted, and everything that was started for it."""

    def __init__(self, tmp_path: Path, **attempt: Any) -> None:
        self.folder = tmp_path / "witness"
        self.folder.mkdir()
        root = repositories.repository(tmp_path / "repository")
        self.attempt = Attempt(root, "sh", "-c", HARNESS, str(self.folder), **attempt)
        self.processes: list[subprocess.Popen[bytes]] = []

    def go(self) -> None:
        (self.folder / "go").touch()

    def executions(self) -> list[int]:
        return [int(path.suffix[1:]) for path in sorted(self.folder.glob("ran.*"))]

    def carry_out(self, *runner: str, stop: Event | None = None) -> AttemptResult:
        made = self.attempt
        # Runners start elsewhere, and some of them are the tests' own.
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        around = made.around(
            git=Git(os.environ["PATH"]), runner=runner or None, environment=environment
        )
        result = carry_out(made.layer, made.contract, made.task, around, stop or Event())
        assert result is not None, "nobody asked to leave"
        return result

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True)
        self.processes.append(process)
        return process

    def start_runner(self, *argv: str) -> subprocess.Popen[bytes]:
        runner = argv or (sys.executable, "-m", "callboard.layers.running")
        return self.start(*runner, str(self.attempt.disk.root), self.attempt.place)

    def runner(self) -> ProcessIdentity:
        process = read_process(self.attempt.disk, self.attempt.layer, "0001_planner")
        assert process is not None
        return ProcessIdentity.from_document(trees.document(process.runner))

    def clear(self) -> None:
        """End what a failed test left."""
        for process in self.processes:
            process.kill()
            process.communicate()
        with contextlib.suppress(CallboardError):
            found = read_process(self.attempt.disk, self.attempt.layer, "0001_planner")
            if found is not None:
                for facts in members.marked(found.run_mark, members.everyone()):
                    members.send(facts, signal.SIGKILL)


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(**attempt: Any) -> Scene:
        made.append(Scene(tmp_path, **attempt))
        return made[-1]

    yield make
    for scene in made:
        scene.clear()


def killer(step: str, ending_of_place: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.layers.killed", step, ending_of_place)


# --- the runner dies ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "place", "executions", "classification"),
    [
        ("make", "attempts/0001_planner", 1, "success"),
        ("write", "process.json", 1, "success"),
        ("link", "process.json", 0, "unknown"),
        ("rename", "stdout.log", 0, "unknown"),
        ("rename", "stderr.log", 0, "unknown"),
        ("rename", "git_before.json", 0, "unknown"),
        ("rename", "prompt.md", 0, "unknown"),
        ("write", "manifest.json", 1, "unknown"),
        ("rename", "manifest.json", 1, "unknown"),
        ("rename", "trace_seals/0001_planner.json", 1, "unknown"),
        ("write", "result.json", 1, "unknown"),
        ("rename", "result.json", 1, "success"),
    ],
)
def test_a_runner_killed_at_any_step_is_not_run_again(
    staged: Callable[..., Scene], step: str, place: str, executions: int, classification: str
) -> None:
    scene = staged()
    scene.go()
    runner = scene.start_runner(*killer(step, place))
    assert runner.wait(30) == -signal.SIGKILL
    result = scene.carry_out()
    assert len(scene.executions()) == executions
    assert result.classification == classification
    assert result.detail == ("runner_died" if classification == "unknown" else None)
    assert scene.carry_out() == result
    assert len(scene.executions()) == executions
    seal = json.loads((scene.attempt.disk.path(scene.attempt.layer.file("trace_seals"))
                       / "0001_planner.json").read_bytes())  # fmt: skip
    assert seal["manifest_sha256"] == trees.sha(scene.attempt.traced("manifest.json").read_bytes())


def test_why_a_runner_gave_up_is_noted(staged: Callable[..., Scene]) -> None:
    scene = staged()
    scene.go()
    result = scene.carry_out(*killer("!rename", "stderr.log"))
    assert (result.classification, result.detail) == ("unknown", "runner_died")
    assert "disk_full" in result.notes[0]
    assert scene.executions() == []


def test_a_trace_that_cannot_be_sealed_keeps_no_result_back(staged: Callable[..., Scene]) -> None:
    scene = staged()
    scene.go()
    result = scene.carry_out(*killer("!write", "manifest.json"))
    assert result.classification == "success"
    assert result.notes[0].startswith("the trace could not be sealed: disk_full")


def test_a_runner_killed_at_single_steps(tmp_path: Path) -> None:
    """At each of them in the deep run, at some otherwise, until it is not reached any more."""
    for number in range(1, 200, 1 if DEEP else 5):
        folder = tmp_path / str(number)
        folder.mkdir()
        scene = Scene(folder)
        scene.go()
        ended = scene.start_runner(*killer("#", str(number))).wait(30)
        result = scene.carry_out()
        assert scene.carry_out() == result
        assert len(scene.executions()) <= 1
        if result.classification == "success":
            assert len(scene.executions()) == 1
        else:
            assert result.detail == "runner_died"
        scene.clear()
        if ended == 0:
            assert number > 10
            return
    raise AssertionError("a runner takes more steps than were counted")


@pytest.mark.parametrize("recovery", ["reap", "drain"])
def test_a_runner_killed_while_its_harness_runs_is_recovered_from(
    staged: Callable[..., Scene], recovery: str
) -> None:
    scene = staged(recovery=recovery)
    root = scene.attempt.disk.root
    runner = scene.start_runner()
    [leader] = until(scene.executions)
    harness = of(leader)
    runner.kill()
    runner.wait()
    result = scene.carry_out()
    assert (result.classification, result.detail, result.exit_code) == (
        "unknown", "runner_died", None
    )  # fmt: skip
    assert result.git_before == GitSubject(head=repositories.head(root), dirty=None)
    assert result.git_after == result.git_before
    assert result.survivors == ()
    assert scene.executions() == [leader]
    assert harness is None or state(harness) == "dead"


def left_behind(scene: Scene) -> ProcessIdentity:
    """A process that carries the mark of the attempt, its runner being dead."""
    mark = json.loads(scene.attempt.path("process.json").read_bytes())["run_mark"]
    process = subprocess.Popen(
        ["sh", "-c", HARNESS, str(scene.folder)],
        env={"PATH": os.environ["PATH"], members.RUN_MARK: mark},
        start_new_session=True,
    )
    scene.processes.append(process)
    identity = of(process.pid)
    assert identity is not None
    until(lambda: process.pid in scene.executions())
    return identity


def dead_runner(scene: Scene) -> None:
    runner = scene.start_runner(*killer("link", "process.json"))
    assert runner.wait(30) == -signal.SIGKILL


def test_reaping_stops_what_the_harness_left_behind(staged: Callable[..., Scene]) -> None:
    scene = staged(recovery="reap")
    dead_runner(scene)
    left = left_behind(scene)
    began = time.monotonic()
    assert scene.carry_out().classification == "unknown"
    # At once: it had a minute of its own time left.
    assert time.monotonic() - began < 30
    assert state(left) == "dead"
    assert scene.processes[-1].wait() == -signal.SIGTERM


def test_draining_lets_it_end_by_itself(staged: Callable[..., Scene]) -> None:
    scene = staged(recovery="drain")
    dead_runner(scene)
    left = left_behind(scene)
    coordinator = scene.start(
        sys.executable, "-m", "tests.layers.coordinator", str(scene.attempt.disk.root)
    )
    with pytest.raises(subprocess.TimeoutExpired):
        coordinator.wait(1.5)
    assert state(left) == "alive"
    scene.go()
    assert coordinator.communicate(timeout=30)[0] == b"unknown\n"
    assert scene.processes[-2].wait() == 0


def test_draining_ends_with_the_time_of_the_harness(staged: Callable[..., Scene]) -> None:
    scene = staged(recovery="drain", timeout_s=1)
    dead_runner(scene)
    left_behind(scene)
    assert scene.carry_out().classification == "unknown"
    assert scene.processes[-1].wait() == -signal.SIGTERM


def test_draining_ends_with_a_stop(staged: Callable[..., Scene]) -> None:
    scene = staged(recovery="drain")
    dead_runner(scene)
    left_behind(scene)
    stop = Event()
    stop.set()
    assert scene.carry_out(stop=stop).classification == "unknown"
    assert scene.processes[-1].wait() == -signal.SIGTERM


# --- who is it? -----------------------------------------------------------------------------------


def recorded(scene: Scene, **changes: Any) -> None:
    """A record of a runner that is this test's own process, but for the changes."""
    identity = current().document() | changes
    process = {
        "schema_version": 1, "attempt_id": "0001_planner",
        "run_mark": f"run_{secrets.token_hex(16)}", "runner": identity, "leader": identity,
        "started_at_ms": 1,
    }  # fmt: skip
    scene.attempt.path("process.json").write_bytes(trees.as_json(process))


@pytest.mark.parametrize(
    "changes",
    [
        {"host": "elsewhere/0123"},
        {"pid_namespace": "pid:[1]"},
        {"boot_id": "another", "host": socket.gethostname()},
        {"pid": -1},
    ],
)
def test_a_runner_that_cannot_be_known_is_left_alone(
    staged: Callable[..., Scene], changes: dict[str, Any]
) -> None:
    scene = staged()
    scene.go()
    recorded(scene, **changes)
    error = refused(scene.carry_out)
    assert error.code == "attempt_undecided"
    assert error.details["why"]
    assert scene.executions() == []
    assert not scene.attempt.path("result.json").exists()


def test_a_dead_harness_does_not_tell_of_a_runner_that_cannot_be_known(
    staged: Callable[..., Scene],
) -> None:
    scene = staged()
    scene.go()
    recorded(scene, host="elsewhere/0123")
    path = scene.attempt.path("process.json")
    process = json.loads(path.read_bytes())
    # A number of this machine that another process had before.
    process["leader"] = current().document() | {"started": 1}
    path.write_bytes(trees.as_json(process))
    assert refused(scene.carry_out).code == "attempt_undecided"
    assert scene.executions() == []
    assert not scene.attempt.path("result.json").exists()


@pytest.mark.parametrize("data", [b"", b"{}", b"\0" * 100])
def test_a_damaged_record_of_a_runner_decides_nothing(
    staged: Callable[..., Scene], data: bytes
) -> None:
    scene = staged()
    scene.attempt.path("process.json").write_bytes(data)
    assert refused(scene.carry_out).code == "attempt_undecided"
    assert scene.executions() == []


def test_a_number_that_another_process_has_now_is_a_dead_runner(
    staged: Callable[..., Scene],
) -> None:
    scene = staged()
    recorded(scene, started=current().started - 1)
    assert scene.carry_out().detail == "runner_died"
    assert scene.executions() == []


def test_a_zombie_is_a_dead_runner(staged: Callable[..., Scene]) -> None:
    scene = staged()
    child = scene.start("true")
    identity = of(child.pid)
    assert identity is not None
    until(lambda: state(identity) == "dead")
    recorded(scene, pid=child.pid, started=identity.started)
    assert scene.carry_out().detail == "runner_died"
    assert scene.executions() == []


# --- several of them ------------------------------------------------------------------------------


def test_of_many_runners_one_executes(staged: Callable[..., Scene]) -> None:
    scene = staged()
    runners = [scene.start_runner() for _ in range(6)]
    until(lambda: sum(one.poll() is not None for one in runners) == 5)
    assert [one.poll() for one in runners].count(0) == 5
    until(scene.executions)
    scene.go()
    result = scene.carry_out()
    assert result.classification == "success"
    assert len(scene.executions()) == 1
    assert scene.attempt.traced("stdout.log").read_bytes() == b"end\n"
    assert sorted(path.name for path in scene.attempt.traced("stdout.log").parent.iterdir()) == [
        "git_after.json", "git_before.json", "manifest.json", "prompt.md", "stderr.log",
        "stdout.log"
    ]  # fmt: skip


def test_a_harness_outlives_its_coordinator_and_is_awaited_by_the_next(
    staged: Callable[..., Scene],
) -> None:
    scene = staged()
    argv = (sys.executable, "-m", "tests.layers.coordinator", str(scene.attempt.disk.root))
    first = scene.start(*argv)
    until(scene.executions)
    first.kill()
    first.wait()
    second = scene.start(*argv)
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(1)
    assert state(scene.runner()) == "alive"
    scene.go()
    assert second.communicate(timeout=30)[0] == b"success\n"
    assert len(scene.executions()) == 1


def test_a_coordinator_asks_a_runner_to_stop_that_another_one_started(
    staged: Callable[..., Scene],
) -> None:
    scene = staged()
    scene.start_runner()
    until(scene.executions)
    stop = Event()
    stop.set()
    result = scene.carry_out(stop=stop)
    assert (result.classification, result.detail) == ("crash", "stopped")
    assert len(scene.executions()) == 1
