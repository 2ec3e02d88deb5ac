"""Many processes on one board at once: every request has one outcome, no Work is granted twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from callboard.board.protocol import operations as ops
from tests.ambient import DEEP
from tests.system.world import HERE, World, make_world, recipe

SECONDS = 30.0 if DEEP else 8.0
DISPATCHERS = 8
SUBMITTERS = 4
# The least a worker can do: say that it is done, by the file that stands for the command.
FINISH = '{"intent_id":"i_1","kind":"finish","outcome":"completed"}'
CHEAP = ["sh", "-c", f"printf '%s' '{FINISH}' > \"$CALLBOARD_STAGING/message-000001.json\""]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    weights = ", ".join(f"s{number} = {number + 1}" for number in range(SUBMITTERS))
    config = (
        "[work_queue]\nconcurrency = 64\nretry = {max_attempts = 3, backoff_seconds = 1}\n"
        f"accounting_weights = {{{weights}}}\n"
    )
    made = make_world(tmp_path, recipes={"default": recipe(CHEAP)}, config=config)
    yield made
    made.end()


def _start(world: World, verb: str, name: str) -> subprocess.Popen[bytes]:
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


def _answer(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    output, complaint = process.communicate(timeout=240)
    assert process.returncode == 0, complaint.decode()
    answer: list[dict[str, Any]] = json.loads(output)
    return answer


def test_dispatchers_and_submitters_on_one_board(world: World) -> None:
    world.submit({"key": "first"})
    submitters = [_start(world, "submit", f"s{number}") for number in range(SUBMITTERS)]
    dispatchers = [_start(world, "dispatch", f"d{number}") for number in range(DISPATCHERS)]
    world.begin_together(len(submitters) + len(dispatchers))
    Event().wait(SECONDS)
    world.file("end").touch()
    answers = [_answer(process) for process in (*submitters, *dispatchers)]
    submitted = [one for answer in answers[:SUBMITTERS] for one in answer]
    granted = [one for answer in answers[SUBMITTERS:] for one in answer]
    # Those who have just written do not keep the others from it.
    for part in (answers[:SUBMITTERS], answers[SUBMITTERS:]):
        shares = [len(answer) for answer in part]
        assert 4 * min(shares) >= max(shares), shares
    projection = world.history().projection
    requests = {state.request_id: state.id for state in projection.requests.values()}
    assert len(requests) == len(projection.commit_ids)
    for answer in submitted + granted:
        assert requests[answer["request_id"]] == answer["commit_id"]
    claims = Counter(claim for answer in granted for claim in answer["claims"])
    assert set(claims.values()) == {1}
    assert set(claims) == set(projection.claims)
    assert len(projection.works) == 1 + len(submitted)
    assert all(state.attempts <= 1 for state in projection.works.values())
    world.check_once()
    world.check_nothing_open()
    world.check_repository()
    assert sum(isinstance(one, ops.Result) for one in world.operations()) == len(claims)


def test_runners_that_really_run(world: World) -> None:
    nodes = 48 if DEEP else 16
    world.submit(*({"key": f"n{number}"} for number in range(nodes)))
    runners = [world.start(workers=2) for _number in range(DISPATCHERS)]
    answers = [world.finish(process) for process in runners]
    assert {answer["reason"] for answer in answers} == {"idle"}
    world.check_settled()
    works = world.works()
    assert {(state.barrier, state.attempts) for state in works.values()} == {("verified", 1)}
    assert len(world.rows()) == nodes
