"""How runs end: what they leave running, what they staged, and who took what away meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from callboard.board.execution.hosts.local.registry_rows import WorkerRun
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.protocol import operations as ops
from callboard.clock import FixedClock, SystemClock
from tests.system.world import BOTH, WORKER, World, make_world, recipe
from tests.waiting import until

APPEND = "callboard.board.storage.git:GitStore.append"
PREPARE = "callboard.board.execution.hosts.local.registry:RunRegistry.prepare"
HOUR_MS = 3_600_000


def _row(world: World) -> WorkerRun:
    (row,) = world.rows()
    return row


def _survivors(world: World) -> list[int]:
    return sorted(int(str(one["pid"])) for one in _row(world).survivors)


# --- what a run leaves running ----------------------------------------------------------------


def test_what_outlives_a_run_that_ends_by_itself_is_named(world: World) -> None:
    first = ["grandchild", "stray", "deliver", "completed"]
    world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
    world.run()
    until(lambda: not world.supervisors())
    living = [facts.pid for facts in world.marked()]
    assert len(living) == 1
    assert _survivors(world) == living
    assert world.works()["task"].barrier == "verified"


def test_nothing_outlives_a_run_at_its_time_limit(tmp_path: Path) -> None:
    world = make_world(tmp_path, recipes={"default": recipe(WORKER, timeout_s=2)})
    try:
        first = ["grandchild", "stray", "await never"]
        world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
        world.run()
        world.check_settled()
        rows = world.rows()
        assert [row.conclusion for row in rows] == ["timed_out", "success"]
        assert [row.survivors for row in rows] == [(), ()]
    finally:
        world.end()


def test_a_supervisor_asked_to_stop_still_takes_in_what_was_staged(world: World) -> None:
    begun = world.file("begun")
    first = ["grandchild", "stray", "deliver", "completed", f"say {begun}", "await never"]
    world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
    process = world.start()
    world.wait_for(begun)
    os.kill(world.journal[0]["supervisor"], signal.SIGTERM)
    world.finish(process)
    world.check_settled()
    assert (_row(world).conclusion, _survivors(world)) == ("stopped", [])
    assert world.works()["task"].barrier == "verified"


def test_what_set_up_left_is_named_although_the_worker_left_nothing(tmp_path: Path) -> None:
    # A session of its own, and no mark: only who adopts it knows whose it is.
    start = "import subprocess as s; s.Popen(['sleep', '600'], env={}, start_new_session=True)"
    setup = [sys.executable, "-W", "ignore", "-c", start]
    world = make_world(tmp_path, recipes={"default": recipe(WORKER, setup=setup)})
    try:
        world.submit({"key": "task", "contract": BOTH})
        world.run()
        until(lambda: not world.supervisors())
        row = _row(world)
        assert [one["command"] for one in row.survivors] == ["sleep 600"]
        os.kill(_survivors(world)[0], signal.SIGKILL)
    finally:
        world.end()


# --- what it staged -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [["deliver", "completed", "exit 3"], ["deliver", "completed", "completed"]],
    ids=["then-exit-3", "twice"],
)
def test_a_staged_finish_counts_once_whatever_the_exit(world: World, first: list[str]) -> None:
    world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
    world.run()
    world.check_settled()
    assert (world.works()["task"].barrier, len(world.journal)) == ("verified", 1)
    assert _row(world).exit_code == (3 if "exit 3" in first else 0)


def test_the_first_of_two_finishes_that_disagree_stands(world: World) -> None:
    first = ["deliver", "cancelled", "completed"]
    world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
    world.run()
    world.check_settled()
    assert world.works()["task"].attempts == 2


def test_outputs_of_work_that_was_cancelled_meanwhile_are_kept_back(world: World) -> None:
    begun, go = world.file("begun"), world.file("go")
    first = [f"say {begun}", f"await {go}", "deliver", "completed"]
    (work_id,) = world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
    process = world.start()
    world.wait_for(begun)
    with world.open() as board:
        board.cancel([work_id], reason="not_wanted")
        assert board.history().projection.open_dispatches
    go.touch()
    world.finish(process)
    world.check_settled()
    task = world.works()["task"]
    assert (task.state, task.cancellation_reason) == ("cancelled", "not_wanted")
    assert not [one for one in world.operations() if isinstance(one, ops.Completion | ops.Result)]


@pytest.mark.parametrize(
    "first",
    [["write left", "completed"], ["write left", "commit more", "completed"]],
    ids=["a-file", "a-commit"],
)
def test_work_that_is_nowhere_else_is_not_cleaned_away(world: World, first: list[str]) -> None:
    world.submit({"key": "task", "payload": {"first": first}})
    world.run()
    world.check_settled()
    row = _row(world)
    assert row.workspace is not None
    assert (row.workspace / "left").read_text() == "left\n"
    assert "is kept" in str(row.notes[-1]["text"])


def test_a_work_tree_that_was_delivered_is_cleaned_away(world: World) -> None:
    world.submit({"key": "task", "contract": BOTH})
    world.run()
    world.check_settled()
    row = _row(world)
    assert row.workspace is not None
    assert not row.workspace.exists()


# --- what was taken away ------------------------------------------------------------------------


def _waiting_run(world: World) -> None:
    """A run under way whose dispatcher is gone; it ends once `go` is there."""
    first = [f"say {world.file('begun')}", f"await {world.file('go')}", "deliver", "completed"]
    world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}}, {"key": "other"})
    process = world.start(workers=1)
    world.wait_for(world.file("begun"))
    process.kill()
    process.wait()


def test_a_run_whose_folder_was_removed_ends_all_the_same(world: World) -> None:
    _waiting_run(world)
    shutil.rmtree(RunFolder.of(world.folders.state, _row(world).run_id).root)
    world.file("go").touch()
    until(lambda: not world.history().projection.open_dispatches)
    assert _row(world).state == "ended"
    assert "the report could not be written" in str([note["text"] for note in _row(world).notes])
    world.run()
    world.check_settled()
    assert world.works()["task"].attempts == 2


def _lose_registry(world: World) -> None:
    for path in world.folders.state.glob("runs.sqlite3*"):
        path.unlink()


def test_without_the_registry_a_bound_run_keeps_its_slot_and_ends_by_itself(world: World) -> None:
    _waiting_run(world)
    _lose_registry(world)
    findings = world.reconcilers(3, 3)
    assert {word for found in findings for word in found.values()} == {"run_unknown_here"}
    summary = world.run()
    assert (summary["reason"], [one["reason"] for one in summary["left"]]) == (
        "idle", ["run_unknown_here"]
    )  # fmt: skip
    assert world.works()["other"].barrier == "verified"
    assert len(world.history().projection.open_dispatches) == 1
    world.file("go").touch()
    until(lambda: not world.history().projection.open_dispatches)
    world.run()
    world.check_settled()
    assert world.works()["task"].attempts == 1


def test_without_the_registry_a_launch_stays_in_doubt(world: World) -> None:
    world.submit({"key": "task"})
    fault = world.fault(APPEND, "after", role="dispatcher", match="Request: start_")
    assert world.run(fault=fault) is None
    _lose_registry(world)
    first, later = world.reconcilers(1, 2)
    assert list(first.values()) == list(later.values()) == ["launch_uncertain"]
    future = FixedClock(SystemClock().now_ms() + 301_000)
    assert list(world.reconcilers(1, 1, future)[0].values()) == ["launch_unresolved"]
    ledger = world.ledger()
    summary = world.run()
    assert [one["reason"] for one in summary["left"]] == ["launch_unresolved"]
    assert world.ledger() == ledger
    projection = world.history().projection
    assert (len(projection.open_dispatches), world.journal) == (1, [])


def test_a_repository_that_was_moved_proves_nothing_about_its_runs(world: World) -> None:
    world.submit({"key": "task", "contract": BOTH})
    hold = world.fault(PREPARE.replace("prepare", "claim_running"), "before", role="supervisor")
    process = world.start(fault={**hold, "action": "hold", "until": str(world.file("go"))})
    world.wait_for(world.file("killed"))
    process.kill()
    process.wait()
    home = world.path
    moved = World(world.root, home.rename(home.with_name("moved")))
    assert [*moved.reconcilers(1, 1)[0].values()] == ["launch_uncertain"]
    assert moved.history().projection.open_dispatches
    moved.path.rename(home)
    world.file("go").touch()
    world.run()
    world.check_settled()
    assert (world.works()["task"].attempts, len(world.journal)) == (1, 1)


@pytest.mark.parametrize(
    ("target", "match", "role", "attempts"),
    [(PREPARE, "", "dispatcher", 2), (APPEND, "Request: finish_", "supervisor", 1)],
    ids=["prepared", "completed"],
)
def test_a_clock_an_hour_back_changes_nothing(
    world: World, target: str, match: str, role: str, attempts: int
) -> None:
    world.submit({"key": "task", "contract": BOTH})
    fault = world.fault(target, "after", role=role, match=match)
    world.run(fault={**fault, "action": "kill" if role == "dispatcher" else "kill_both"})
    past = FixedClock(SystemClock().now_ms() - HOUR_MS)
    world.reconcilers(2, 2, past)
    assert not world.history().projection.open_dispatches
    world.run()
    world.check_settled()
    assert world.works()["task"].attempts == attempts


def test_a_host_that_cannot_launch_says_so_and_spends_one_attempt(world: World) -> None:
    world.submit({"key": "task", "contract": BOTH})
    runs = world.folders.state / "runs"
    runs.parent.mkdir()
    runs.write_text("in the way\n")
    process = world.start()
    _output, complaint = process.communicate(timeout=60)
    assert process.returncode == 1
    assert complaint.decode().startswith("launch_failed: ")
    runs.unlink()
    world.run()
    world.check_settled()
    assert (world.works()["task"].attempts, len(world.journal)) == (2, 1)


def test_a_run_is_finished_although_no_remark_about_it_can_be_kept(world: World) -> None:
    """Its report cannot be written, and the remark that says so is lost as well."""
    first = ["mkdir ../report.json", "deliver", "completed"]
    world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
    note = "callboard.board.execution.hosts.local.registry:RunRegistry.note"
    lost = {**world.fault(note, "before", role="supervisor"), "action": "lose"}
    world.run(fault=lost)
    world.check_settled()
    assert world.file("killed").exists()
    assert (world.works()["task"].attempts, len(world.journal)) == (1, 1)
    log = RunFolder.of(world.folders.state, _row(world).run_id).supervisor_log.read_text()
    assert "report could not be written" in log
    assert "this remark is not on record" in log
