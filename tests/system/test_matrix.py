"""The fault matrix: every fault at every step of a dispatch, each cell with its own assertions.

See `matrix` for what is expected, `matrix_plays` for what is done, `matrix_stage` for how.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path

import pytest

from callboard.board.protocol import operations as ops
from tests.ambient import DEEP
from tests.system import matrix
from tests.system.matrix import EXCLUDED, FAULTS, NO_ROOM, ROWS, SAMPLE, STEPS, Row
from tests.system.matrix_plays import PLAYS, Ended, recover
from tests.system.matrix_stage import STEP, Seen, Step, stage
from tests.system.matrix_stage import STEPS as STAGED
from tests.system.mounts import own_mounts
from tests.system.world import World

_MOUNTING = ("disk_full", "read_only")
_REPO = re.compile(r" --repo \S+")
Cell = tuple[str, str]


def _cells() -> dict[Cell, Row]:
    return {(row.fault, step): row for row in ROWS for step in row.steps.split()}


def _sample() -> list[Cell]:
    return [(fault, step) for fault, steps in SAMPLE.items() for step in steps.split()]


@pytest.mark.parametrize(
    ("fault", "step"),
    list(_cells()) if DEEP else _sample(),
    ids=lambda value: value,
)
def test_a_fault_at_a_step(tmp_path: Path, fault: str, step: str) -> None:
    if fault in _MOUNTING and not own_mounts():
        pytest.skip("a file system of its own needs the right to mount")
    row = _cells()[fault, step]
    with stage(tmp_path, step, disk=fault == "disk_full") as made:
        seen = PLAYS[fault](made)
        _judge(row, seen)
        # Beside a full disk SQLite cannot even read, and nothing is forgotten until the end.
        if made.branch_exists() and fault != "disk_full":
            _check_markers(made.world)
        ended = recover(made, fault, seen.hints)
        assert ended == Ended(row.attempts, row.executions, "verified")
        _check_markers(made.world)


def _judge(row: Row, seen: Seen) -> None:
    standing = row.standing
    assert (seen.board, seen.places) == (standing.board, standing.places), seen
    assert seen.living == row.living, seen
    if row.said == NO_ROOM:
        assert set(seen.said.split()) <= set(NO_ROOM.split("|")), seen
    else:
        assert seen.said == row.said, seen
    assert seen.status in standing.statuses, seen
    assert seen.explained in {one.rpartition(" ")[2] for one in standing.statuses}, seen
    refused, _, codes = row.found.partition(" ")
    if refused == "refused":
        assert seen.found in {f"refused {code}" for code in codes.split("|")}, seen
    else:
        assert seen.found == row.found, seen
    hints = [_REPO.sub("", one) for one in seen.hints]
    assert len(hints) == len(row.hints), seen
    for hint, begins in zip(hints, row.hints, strict=True):
        assert hint.startswith(tuple(begins.split("|"))), seen


def _check_markers(world: World) -> None:
    """For each start marker at most one run was on record, bound, and executed."""
    markers: Counter[str] = Counter()
    for one in world.operations():
        if isinstance(one, ops.Dispatch) and one.state == "started":
            markers[one.dispatch_id] += 1
    runs = Counter(row.dispatch_id for row in world.rows())
    claims = world.history().projection.claims
    # An execution is told by the supervisor that it ran under.
    executed = {
        (claims[line["claim_id"]].claim.dispatch_id, line["supervisor"]) for line in world.journal
    }
    under = Counter(dispatch_id for dispatch_id, _supervisor in executed)
    for counted in (markers, runs, under):
        assert not {one: count for one, count in counted.items() if count > 1}
    assert under.keys() <= markers.keys()
    assert runs.keys() <= markers.keys()


# --- the table is whole --------------------------------------------------------------------------


def test_cells_and_exclusions_are_the_whole_product() -> None:
    cells = [(row.fault, step) for row in ROWS for step in row.steps.split()]
    excluded = [(one.fault, step) for one in EXCLUDED for step in one.steps.split()]
    assert sorted(cells + excluded) == sorted(itertools.product(FAULTS, STEPS))
    assert set(PLAYS) == set(FAULTS)
    assert [one.name for one in STAGED] == list(STEPS)
    assert all(one.reason for one in EXCLUDED)


def test_the_ordinary_suite_meets_each_fault_and_each_step() -> None:
    sample = _sample()
    assert set(sample) <= set(_cells())
    assert {fault for fault, _step in sample} == set(FAULTS)
    assert {step for _fault, step in sample} == set(STEPS)


def _excluded(fault: str) -> set[str]:
    return {step for one in EXCLUDED if one.fault == fault for step in one.steps.split()}


def test_where_there_is_no_supervisor_or_worker_none_can_be_killed() -> None:
    """The rows of the dispatcher say who lives at each step, and they are held to it."""
    living = {step: row.living.split() for (fault, step), row in _cells().items()
              if fault == "dispatcher"}  # fmt: skip
    assert {step for step, (supervisors, *_) in living.items() if supervisors == "0"} == _excluded(
        "supervisor"
    )
    assert {step for step, (_, workers, _) in living.items() if workers == "0"} == _excluded(
        "worker"
    )


def test_where_a_reconciler_finds_nothing_it_cannot_be_killed_writing() -> None:
    found = {step for (fault, step), row in _cells().items()
             if fault == "dispatcher" and row.found == ""}  # fmt: skip
    assert found == _excluded("reconciler")


def test_where_the_board_stays_as_it_is_no_answer_can_be_lost(tmp_path: Path) -> None:
    """One undisturbed dispatch, with the board's tip before and after each step on record."""
    with stage(tmp_path, "take") as made:
        files = {one.name: made.world.file(f"tips-{one.name}") for one in STAGED}
        faults = [made.fault(one.role, *_call(one), mark=str(files[one.name])) for one in STAGED]
        # The supervisor is held, so that it does not append while the spawning is looked at.
        held = made.fault("supervisor", STEP["take"].target, "hold", until=str(files["spawn"]))
        made.start([*faults, held])
        made.release()
        silent = {name for name, path in files.items() if _unmoved(path)}
    assert silent == _excluded("publisher")
    assert tuple(files) == matrix.STEPS


def _call(step: Step) -> tuple[str, str]:
    return step.whole or step.target, "tips"


def _unmoved(path: Path) -> bool:
    lines = path.read_text(encoding="ascii").splitlines()
    assert lines, path
    return all(before == after for before, after in (line.split() for line in lines))
