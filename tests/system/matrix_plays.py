"""What each fault of the matrix does at a step, and what a person does when it is over.

A play brings a stage to its step, does one thing to it, looks, and undoes what a person would undo.
It expects nothing; what is expected of each cell stands in `matrix`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from tests.system.matrix_stage import APPEND, LAUNCH, Seen, Stage
from tests.waiting import until

_SETTLED_S = 60
_RUN = ("run", "--until-idle")


def dispatcher(stage: Stage) -> Seen:
    """SIGKILL of the dispatcher: at its own steps, or beside a supervisor that waits at one."""
    if stage.step.role == "dispatcher":
        stage.begin()
    else:
        launched = str(stage.world.file("launched"))
        beside = stage.fault(
            "dispatcher", LAUNCH, "hold", when="after", mark=launched, until=launched + "-go"
        )
        stage.begin(beside, verb="run")
        stage.world.wait_for(stage.world.file("launched"))
    stage.kill("dispatcher")
    return stage.look("")


def supervisor(stage: Stage) -> Seen:
    """SIGKILL of the supervisor."""
    stage.begin()
    stage.kill("supervisor")
    return stage.look("")


def worker(stage: Stage) -> Seen:
    """SIGKILL of the worker."""
    stage.begin()
    stage.kill("worker")
    return stage.look(stage.release())


def reconciler(stage: Stage) -> Seen:
    """SIGKILL of a reconciler right after the first thing that it wrote on the board, when it takes
    over from the step's process, which was killed before it."""
    stage.begin()
    stage.kill(stage.step.role)
    mark = stage.world.file("reconciler-killed")
    answer = stage.command(
        "reconcile",
        faults=[stage.fault("reconciler", APPEND, "kill", when="after", mark=str(mark))],
    )
    assert answer.status == -9, answer
    return stage.look("")


def publisher(stage: Stage) -> Seen:
    """The step's append was made, and its answer is lost."""
    lost = stage.fault(stage.step.role, APPEND, "lose", when="after", match=stage.step.match)
    stage.start([lost])
    return stage.look(stage.release())


def publisher_refused(stage: Stage) -> Seen:
    """The step's append is refused, as a lock was left behind beside the board's branch."""
    return _surrounded(stage, stage.lock_branch)


def disk_full(stage: Stage) -> Seen:
    """Nothing more can be written beside the repository and in the state folder."""
    stage.begin()
    stage.fill()
    said = stage.release()
    # What the processes gave back as they ended is taken, too, before anybody looks.
    stage.fill()
    return stage.look(said)


def read_only(stage: Stage) -> Seen:
    """The repository is read-only."""
    return _surrounded(stage, stage.protect)


def clock_back(stage: Stage) -> Seen:
    """All clocks go back by an hour."""
    return _surrounded(stage, stage.clock.touch)


def registry_gone(stage: Stage) -> Seen:
    """The record of runs is not there any more."""
    return _surrounded(stage, stage.hide_registry)


def branch_deleted(stage: Stage) -> Seen:
    """The board's branch is deleted."""
    return _surrounded(stage, stage.delete_branch)


def second(stage: Stage) -> Seen:
    """While the step's process waits, another one grants, starts and looks after what is open."""
    stage.begin()
    other = stage.world.start("dispatch", environment=stage.environment(), workers=1)
    stage.world.finish(other)
    if stage.step.role == "dispatcher":
        # What the other one may have launched is seen to its end, so that all looks are alike.
        until(lambda: not stage.world.supervisors(), timeout_s=_SETTLED_S)
    return stage.look("")


def _surrounded(stage: Stage, bring_about: Callable[[], object]) -> Seen:
    stage.begin()
    bring_about()
    return stage.look(stage.release())


PLAYS: dict[str, Callable[[Stage], Seen]] = {
    play.__name__: play
    for play in (
        dispatcher, supervisor, worker, reconciler, publisher, publisher_refused, disk_full,
        read_only, clock_back, registry_gone, branch_deleted, second,
    )
}  # fmt: skip
_UNDONE: dict[str, Callable[[Stage], object]] = {
    "publisher_refused": Stage.unlock_branch,
    "disk_full": Stage.make_room,
    "read_only": Stage.unprotect,
    "clock_back": lambda stage: stage.clock.unlink(),
    "registry_gone": Stage.bring_registry,
    "branch_deleted": Stage.restore_branch,
}


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of the Work once all was over: attempts, executions, and its barrier."""

    attempts: int
    executions: int
    barrier: str


def recover(stage: Stage, fault: str, hints: tuple[str, ...]) -> Ended:
    """End the fault, do what was said to be done next, and then run the board until it is idle."""
    if fault in _UNDONE:
        _UNDONE[fault](stage)
    stage.go.touch()
    until(lambda: not stage.world.supervisors(), timeout_s=_SETTLED_S)
    where = str(stage.world.path)
    for hint in hints:
        if hint.startswith("callboard "):
            words = [one for one in shlex.split(hint)[1:] if one not in ("--repo", where)]
            answer = stage.command(*(_RUN if words == ["run"] else words))
            assert answer.status in (0, 3), (hint, answer)
    answer = stage.command(*_RUN, "--json")
    assert answer.status == 0, answer
    stage.world.check_settled()
    work = stage.world.works()["task"]
    return Ended(work.attempts, len(stage.world.journal), work.barrier)
