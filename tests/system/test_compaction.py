"""Checkpoints among many processes, and where the one that makes them is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from callboard.board.board import Board
from callboard.board.reading import lines
from tests.ambient import DEEP
from tests.board.projection import audit
from tests.system.test_kill_table import DISPATCHER, SUPERVISOR
from tests.system.world import BOTH, HERE, World, make_world, recipe

SECONDS = 25.0 if DEEP else 8.0
SUBMITTERS = 4
COMPACTORS = 2


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    weights = ", ".join(f"s{number} = {number + 1}" for number in range(SUBMITTERS))
    config = (
        "[work_queue]\nconcurrency = 64\nretry = {max_attempts = 3, backoff_seconds = 1}\n"
        f"accounting_weights = {{{weights}}}\n"
    )
    made = make_world(tmp_path, recipes={"default": recipe(["true"])}, config=config)
    yield made
    made.end()


def start(world: World, verb: str, name: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [
            sys.executable, str(HERE / "contending.py"), verb, str(world.path),
            str(world.folders.config), str(world.folders.state), str(world.file("end")), name,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    world.processes.append(process)
    return process


def answer(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    output, complaint = process.communicate(timeout=240)
    assert process.returncode == 0, complaint.decode()
    found: list[dict[str, Any]] = json.loads(output)
    return found


POINTS = (
    ("dispatcher", "after-grant-append"),
    ("dispatcher", "after-start-append"),
    ("dispatcher", "after-registry-prepare"),
    ("supervisor", "after-claim-running"),
    ("supervisor", "after-bind-append"),
    ("supervisor", "before-child-go"),
    ("supervisor", "after-finish-append"),
    ("supervisor", "after-branch-set"),
    ("supervisor", "after-result-append"),
    ("supervisor", "after-release-append"),
)


@pytest.mark.parametrize(("role", "name"), POINTS)
def test_a_run_goes_on_from_a_checkpoint_made_in_the_midst_of_it(
    tmp_path: Path, role: str, name: str
) -> None:
    """What was under way when the checkpoint was made is settled as it would have been."""
    world = make_world(tmp_path)
    try:
        table = DISPATCHER if role == "dispatcher" else SUPERVISOR
        point = next(one for one in table if f"{one.when}-{one.name}" == name)
        world.submit({"key": "task", "contract": BOTH})
        fault = world.fault(point.target, point.when, role=role, match=point.match)
        world.finish(world.start("dispatch", fault=fault))
        world.wait_for(world.file("killed"))
        with world.open() as board:
            board.checkpoint()
        world.run()
        with world.open() as board:
            board.checkpoint()
        world.check_settled()
        work = world.works()["task"]
        assert work.barrier == "verified"
        assert (work.attempts, len(world.journal)) == (point.attempts, point.executions)
    finally:
        world.end()


def test_nothing_is_lost_while_two_processes_compact(world: World) -> None:
    world.submit({"key": "first"})
    submitters = [start(world, "submit", f"s{number}") for number in range(SUBMITTERS)]
    dispatcher = start(world, "dispatch", "d")
    compactors = [start(world, "checkpoint", f"c{number}") for number in range(COMPACTORS)]
    reader = start(world, "read", "r")
    world.begin_together(len(submitters) + len(compactors) + 2)
    Event().wait(SECONDS)
    world.file("end").touch()
    submitted = [one for process in submitters for one in answer(process)]
    granted = answer(dispatcher)
    made = [one for process in compactors for one in answer(process)]
    assert answer(reader)
    with Board.open(world.path, world.folders) as board:
        history = board.history()
        requests = {one.request_id: one.id for one in history.projection.requests.values()}
        for one in [*submitted, *granted, *made]:
            assert requests[one["request_id"]] == one["commit_id"]
        kinds = [one.kind for one in history.projection.requests.values()]
        assert kinds.count("checkpoint") == len(made) > COMPACTORS
        assert history.projection.counters.work == 1 + len(submitted)
        report = lines.behind_checkpoints(history)
        assert report["unchecked_commits"] == 0
        assert len(report["checked"]) == len(made)
        claims = {claim for one in granted for claim in one["claims"]}
        assert claims == set(history.projection.claims)


def test_killed_at_any_moment_the_board_is_the_one_before_or_the_one_after(world: World) -> None:
    world.submit({"key": "first"}, {"key": "second"})
    world.file("go").touch()
    for round_number in range(12 if DEEP else 5):
        with Board.open(world.path, world.folders) as board:
            before = board.history().projection.ordinal
        process = start(world, "checkpoint", "c")
        assert process.stderr is not None
        for _made in range(1 + round_number % 3):
            assert process.stderr.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        with Board.open(world.path, world.folders) as board:
            history = board.history()
            kinds = [one.kind for one in history.projection.requests.values()]
            assert kinds[before:] == ["checkpoint"] * (history.projection.ordinal - before)
            assert history.projection.ordinal - before >= 1 + round_number % 3
            projection = history.projection
            at = projection.last_at
            assert audit.kept(projection, at) == audit.counted(projection, at)
            assert projection.counters.work == 2 + round_number
            assert lines.behind_checkpoints(history)["unchecked_commits"] == 0
        world.submit({"key": f"after-{round_number}"})
