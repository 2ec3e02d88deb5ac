"""SIGKILL at every step of a dispatch: what the next `run` makes of what is left.

Each row is one point, the number of attempts the Work needs in the end, and how often its worker
executed. The last `run` is the same command every time, started anew and without a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from callboard.board.projection.entities import WorkState
from tests.ambient import DEEP
from tests.system.world import BOTH, WORKER, World, make_world, recipe

EXECUTION = "callboard.board.execution."
LOCAL = EXECUTION + "hosts.local."
PROCESSES = "callboard.processes."
OUTPUTS = "callboard.board.outputs."
APPEND = "callboard.board.storage.git:GitStore.append"
SET_REF = "callboard.board.storage.repository:Repository.set_ref"
SWAP = "callboard.board.storage.refs:Refs._swap"
PREPARED = "callboard.board.storage.writer_lock:WriterLock.prepare"
PUBLISH = "callboard.files:publish"


class Point(NamedTuple):
    """Where a process is killed, and what must come of it."""

    name: str
    target: str
    when: str
    attempts: int
    executions: int
    match: str = ""


DISPATCHER = (
    Point("grant-append", APPEND, "before", 1, 1, "dispatch_next: "),
    Point("grant-append", APPEND, "after", 1, 1, "dispatch_next: "),
    Point("grant-ref-prepared", PREPARED, "after", 1, 1),
    Point("grant-ref-swap", SWAP, "before", 1, 1, "work-queue"),
    Point("grant-ref-swap", SWAP, "after", 1, 1, "work-queue"),
    Point("start-append", APPEND, "before", 1, 1, "Request: start_"),
    Point("start-append", APPEND, "after", 2, 1, "Request: start_"),
    Point("registry-prepare", LOCAL + "registry:RunRegistry.prepare", "before", 2, 1),
    Point("registry-prepare", LOCAL + "registry:RunRegistry.prepare", "after", 2, 1),
    Point("spawn", LOCAL + "host:LocalHost._spawn", "before", 2, 1),
    Point("spawn", LOCAL + "host:LocalHost._spawn", "after", 1, 1),
)
SUPERVISOR = (
    Point("claim-running", LOCAL + "registry:RunRegistry.claim_running", "before", 2, 1),
    Point("claim-running", LOCAL + "registry:RunRegistry.claim_running", "after", 2, 1),
    Point("bind-append", APPEND, "before", 2, 1, "Request: bind_"),
    Point("bind-append", APPEND, "after", 2, 1, "Request: bind_"),
    Point("staging-made", OUTPUTS + "staging:prepare_folder", "after", 2, 1),
    Point("assignment-written", PUBLISH, "after", 2, 1, "assignment.json"),
    Point("workspace", EXECUTION + "workspace:create", "before", 2, 1),
    Point("workspace-populate", EXECUTION + "workspace:_populate", "before", 2, 1),
    Point("workspace", EXECUTION + "workspace:create", "after", 2, 1),
    Point("child-held", PROCESSES + "held:hold", "after", 2, 1),
    Point("child-recorded", LOCAL + "registry:RunRegistry.record_worker", "after", 2, 1),
    Point("child-go", PROCESSES + "held:HeldProcess.run", "before", 2, 1),
    Point("worker-ended", PROCESSES + "held:HeldProcess.run", "after", 2, 2),
    Point("intake", OUTPUTS + "intake:take", "before", 2, 2),
    Point("patch-made", EXECUTION + "snapshot:diff_to_commit", "after", 2, 2),
    Point("patch-unpack", EXECUTION + "transfer:_unpack", "before", 2, 2),
    Point("patch-fetched", EXECUTION + "transfer:fetch_into", "after", 2, 2),
    Point("intake", OUTPUTS + "intake:take", "after", 2, 2),
    Point("report-written", PUBLISH, "after", 2, 2, "report.json"),
    Point("outputs-noted", OUTPUTS + "prepared:write_prepared", "before", 2, 2),
    Point("outputs-noted", OUTPUTS + "prepared:write_prepared", "after", 2, 2),
    Point("prepare-claim", OUTPUTS + "effects:prepare_claim", "after", 2, 2),
    Point("finish-append", APPEND, "before", 2, 2, "Request: finish_"),
    Point("finish-append", APPEND, "after", 1, 1, "Request: finish_"),
    Point("artifact-set", SET_REF, "before", 1, 1, "refs/callboard/artifacts/"),
    Point("artifact-swap", SWAP, "before", 1, 1, "refs/callboard/artifacts/"),
    Point("artifact-set", SET_REF, "after", 1, 1, "refs/callboard/artifacts/"),
    Point("branch-set", SET_REF, "before", 1, 1, "refs/heads/callboard/"),
    Point("branch-set", SET_REF, "after", 1, 1, "refs/heads/callboard/"),
    Point("verified", OUTPUTS + "delivery:verify_delivery", "after", 1, 1),
    Point("result-append", APPEND, "before", 1, 1, "Request: result_"),
    Point("result-append", APPEND, "after", 1, 1, "Request: result_"),
    Point("registry-finish", LOCAL + "registry:RunRegistry.finish", "before", 1, 1),
    Point("registry-finish", LOCAL + "registry:RunRegistry.finish", "after", 1, 1),
    Point("release-append", APPEND, "before", 1, 1, "Request: release_"),
    Point("release-append", APPEND, "after", 1, 1, "Request: release_"),
    Point("dispose", EXECUTION + "disposal:dispose", "before", 1, 1),
    Point("dispose", EXECUTION + "disposal:dispose", "after", 1, 1),
)
# A reconciler that is killed in turn, after a supervisor was killed at the point named first.
RECONCILER = (
    Point("void", LOCAL + "registry:RunRegistry.void", "before", 2, 1),
    Point("void", LOCAL + "registry:RunRegistry.void", "after", 2, 1),
    Point("orphans", PROCESSES + "orphans:stop_orphans", "before", 2, 2),
    Point("orphans", PROCESSES + "orphans:stop_orphans", "after", 2, 2),
    Point("lost-finish", LOCAL + "registry:RunRegistry.finish", "after", 2, 2),
    Point("lost-release", APPEND, "before", 2, 2, "Request: release_"),
    Point("lost-release", APPEND, "after", 2, 2, "Request: release_"),
    Point("late-bind", APPEND, "after", 2, 1, "Request: found_"),
    Point("late-effects", SET_REF, "after", 1, 1, "refs/callboard/artifacts/"),
    Point("late-result", APPEND, "before", 1, 1, "Request: result_"),
)
_FIRST_KILL = {
    "void": (LOCAL + "host:LocalHost._spawn", "before", "dispatcher", ""),
    "orphans": (OUTPUTS + "intake:take", "before", "supervisor", ""),
    "lost-finish": (OUTPUTS + "intake:take", "before", "supervisor", ""),
    "lost-release": (OUTPUTS + "intake:take", "before", "supervisor", ""),
    "late-bind": (APPEND, "before", "supervisor", "Request: bind_"),
    "late-effects": (APPEND, "after", "supervisor", "Request: finish_"),
    "late-result": (APPEND, "after", "supervisor", "Request: finish_"),
}

# Neighbours of points that stay in the ordinary suite.
_DEEP = frozenset(
    """
    before-grant-ref-swap before-registry-prepare before-bind-append after-staging-made
    before-workspace after-child-recorded before-intake after-patch-made after-patch-fetched
    after-intake before-outputs-noted after-prepare-claim before-artifact-set after-artifact-set
    after-verified before-result-append after-report-written before-registry-finish
    before-release-append after-dispose before-void before-orphans after-lost-finish
    after-lost-release before-late-result
    """.split()
)


def _id(point: Point) -> str:
    return f"{point.when}-{point.name}"


def _chosen(points: Sequence[Point]) -> list[Point]:
    assert DEEP or {_id(point) for point in (*DISPATCHER, *SUPERVISOR, *RECONCILER)} >= _DEEP
    return [point for point in points if DEEP or _id(point) not in _DEEP]


def _fault(world: World, point: Point, role: str, action: str) -> dict[str, str]:
    return {
        "role": role,
        "target": point.target,
        "when": point.when,
        "match": point.match,
        "action": action,
        "mark": str(world.file(f"{role}-killed")),
    }


def _settled(world: World, attempts: int, executions: int) -> WorkState:
    world.check_settled()
    work = world.works()["task"]
    assert work.barrier == "verified"
    assert (work.attempts, len(world.journal)) == (attempts, executions)
    return work


@pytest.mark.parametrize("point", _chosen(DISPATCHER), ids=_id)
def test_a_dispatcher_killed_anywhere_leaves_a_board_that_goes_on(
    world: World, point: Point
) -> None:
    world.submit({"key": "task", "contract": BOTH})
    assert world.run(fault=_fault(world, point, "dispatcher", "kill")) is None
    world.run()
    _settled(world, point.attempts, point.executions)


_FROM_COMPLETION = next(
    index for index, point in enumerate(SUPERVISOR) if _id(point) == "after-finish-append"
)
# A dispatcher that goes on helps along with these, so that the point is only sure to be reached
# without one.
_BINDING = {point for point in SUPERVISOR if point.name == "bind-append"}
_HELPED = {*SUPERVISOR[_FROM_COMPLETION:], *_BINDING}
_TOGETHER = [(point, True) for point in _chosen(SUPERVISOR)]
_ALONE = [(point, False) for point in SUPERVISOR if DEEP and point not in _BINDING]


@pytest.mark.parametrize(
    ("point", "together"),
    [*_TOGETHER, *_ALONE],
    ids=lambda value: _id(value) if isinstance(value, Point) else ("both" if value else "alone"),
)
def test_a_supervisor_killed_anywhere_is_made_up_for(
    world: World, point: Point, together: bool
) -> None:
    """`together`: its dispatcher is killed with it; else that one makes up for it."""
    world.submit({"key": "task", "contract": BOTH})
    helped = point in _HELPED
    fault = _fault(world, point, "supervisor", "kill_both" if together else "kill")
    if together and helped:
        world.finish(world.start("dispatch", fault=fault))
    else:
        answer = world.run(fault=fault)
        assert (answer is None) == together
    if together or not helped:
        world.wait_for(world.file("supervisor-killed"))
    world.run()
    _settled(world, point.attempts, point.executions)


@pytest.mark.parametrize("point", _chosen(RECONCILER), ids=_id)
def test_a_reconciler_killed_in_turn_is_made_up_for(world: World, point: Point) -> None:
    target, when, role, match = _FIRST_KILL[point.name]
    first = Point("first", target, when, 0, 0, match)
    action = "kill" if role == "dispatcher" else "kill_both"
    world.submit({"key": "task", "contract": BOTH})
    assert (
        world.run(fault={**_fault(world, first, role, action), "mark": str(world.file("0"))})
        is None
    )
    assert world.run(fault=_fault(world, point, "dispatcher", "kill")) is None
    world.run()
    _settled(world, point.attempts, point.executions)


@pytest.mark.parametrize("step", ["", "grandchild"], ids=["leader", "with-grandchild"])
@pytest.mark.parametrize("whom", ["worker", "supervisor", "both"])
def test_a_kill_while_the_worker_executes(world: World, whom: str, step: str) -> None:
    first = [*([step] if step else []), f"kill {whom}"]
    world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
    answer = world.run()
    assert (answer is None) == (whom == "both")
    world.run()
    _settled(world, 2, 2)
    lost = [row.conclusion for row in world.rows()]
    assert sorted(map(str, lost)) == sorted(
        ["success", "signalled" if whom == "worker" else "supervisor_lost"]
    )


def test_a_worker_killed_after_it_staged_its_finish_has_finished(world: World) -> None:
    first = ["deliver", "completed", "kill worker"]
    world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
    world.run()
    _settled(world, 1, 1)


def test_a_supervisor_outlives_its_dispatcher(world: World) -> None:
    begun, go = world.file("begun"), world.file("go")
    first = [f"say {begun}", f"await {go}", "deliver", "completed"]
    world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
    process = world.start()
    world.wait_for(begun)
    process.kill()
    go.touch()
    assert world.finish(process) is None
    _settled(world, 1, 1)


def test_a_dispatcher_told_to_stop_leaves_its_runs_to_their_supervisors(world: World) -> None:
    begun, go = world.file("begun"), world.file("go")
    first = [f"say {begun}", f"await {go}", "deliver", "completed"]
    world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
    process = world.start("serve")
    world.wait_for(begun)
    process.terminate()
    assert world.finish(process)["reason"] == "stopped"
    go.touch()
    _settled(world, 1, 1)


def test_a_kill_between_two_claims_of_a_run_parts_their_fates(tmp_path: Path) -> None:
    world = make_world(tmp_path, recipes={"default": recipe(WORKER, max_claims=3)})
    try:
        world.submit(*({"key": key, "contract": BOTH} for key in ("one", "two", "three")))
        finish = Point("second-finish", APPEND, "before", 2, 2, "_h2")
        assert world.run(fault=_fault(world, finish, "supervisor", "kill_both")) is None
        world.run()
        world.check_settled()
        works = world.works()
        assert [(key, works[key].barrier, works[key].attempts) for key in works] == [
            ("one", "verified", 1), ("two", "verified", 2), ("three", "verified", 2)
        ]  # fmt: skip
    finally:
        world.end()


@pytest.mark.parametrize("whom", ["worker", "supervisor", "both"] if DEEP else ["both"])
def test_a_kill_during_the_set_up_command(tmp_path: Path, whom: str) -> None:
    setup = [*WORKER, str(tmp_path / "set-up-killed"), whom]
    world = make_world(tmp_path, recipes={"default": recipe(WORKER, setup=setup)})
    try:
        world.submit({"key": "task", "contract": BOTH})
        assert (world.run() is None) == (whom == "both")
        world.run()
        _settled(world, 2, 1)
        conclusions = {row.conclusion for row in world.rows()}
        assert conclusions == {
            "success", "setup_signalled" if whom == "worker" else "supervisor_lost"
        }  # fmt: skip
    finally:
        world.end()
