"""Having an attempt carried out, and awaiting its one result.

A runner of its own does the work and goes on without whoever waits here. A second one is only
started where no `process.json` says that one has begun; what cannot be known is refused.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from callboard.errors import CallboardError
from callboard.layers.around import Around
from callboard.layers.attempts import place_of
from callboard.layers.disk import Disk
from callboard.layers.records.attempt import AttemptProcess, AttemptResult
from callboard.layers.records.state import Task
from callboard.layers.records.workflow import WorkflowContract
from callboard.layers.recovering import identity_of, recover, undecided
from callboard.layers.results import PROCESS, RESULT, read_process, read_result
from callboard.layers.running import harness_of
from callboard.layers.tree import Layer
from callboard.processes import members
from callboard.processes.identity import ProcessIdentity, look, state, why_unknown
from callboard.visible import visible

_LOOK_EVERY_S = 0.05
_MAX_STARTS = 3
_COMPLAINT_BYTES = 2_000

# They outlive whoever started them, and must be collected all the same.
_started: list[subprocess.Popen[bytes]] = []


def carry_out(
    disk: Disk,
    layer: Layer,
    contract: WorkflowContract,
    task: Task,
    around: Around,
    stop: Event,
    leave: Event | None = None,
) -> AttemptResult | None:
    """The result of the layer's task, which is executed at most once, whoever asks how often.

    A runner that is there is awaited, a dead one recovered from, and otherwise one is started.
    Once `stop` is set the runner is asked to end the harness. Once `leave` is set nobody waits
    any longer and the answer is None; the runner goes on without the caller.

    Raises `attempt_undecided` where nobody can know whether a runner lives,
    `attempt_interrupted` where a stop came before anything was executed, `runner_failed` where
    no runner could begin, and `layer_corrupt`.
    """
    try:
        return _carried_out(disk, layer, contract, task, around, _Wishes(stop, leave or Event()))
    except _Left:
        return None


class _Left(Exception):
    """Whoever waited has gone. It never leaves this module."""


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What may end a wait before its end: that the harness ends, or that nobody waits."""

    stop: Event
    leave: Event

    def until(self, has_ended: Callable[[], bool], ask: Callable[[], None]) -> None:
        """Stay until it has ended; ask it to end, once, when that is wished."""
        asked = False
        while not has_ended():
            if self.leave.is_set():
                raise _Left
            if self.stop.is_set() and not asked:
                asked = True
                ask()
            self.leave.wait(_LOOK_EVERY_S)


def _carried_out(
    disk: Disk,
    layer: Layer,
    contract: WorkflowContract,
    task: Task,
    around: Around,
    wishes: _Wishes,
) -> AttemptResult:
    attempt = task.attempt_id
    notes = []
    if _process(disk, layer, attempt) is None and read_result(disk, layer, attempt) is None:
        complaint = _begin(around, layer, attempt, wishes)
        notes = [] if complaint is None else [f"its runner failed: {complaint}"]
    process = _process(disk, layer, attempt)
    if process is not None:
        _await(identity_of(process.runner), wishes)
    # Not sooner: as long as its runner lives, a result may be anybody's.
    result = read_result(disk, layer, attempt)
    if result is not None:
        return result
    if process is None:
        raise _failed(attempt, f"its {PROCESS} was taken away")
    why = why_unknown(identity_of(process.runner))
    if why:
        raise undecided(layer, attempt, why)
    harness = harness_of(contract, task)
    drain = contract.recovery == "drain"
    return recover(around, layer, process, harness, drain=drain, notes=notes, stop=wishes.stop)


def _process(disk: Disk, layer: Layer, attempt: str) -> AttemptProcess | None:
    """Who carries the attempt out; `attempt_undecided` where its record is of no use."""
    try:
        process = read_process(disk, layer, attempt)
        if process is not None:
            identity_of(process.runner)
            identity_of(process.leader)
    except CallboardError as error:
        if error.code in ("layer_corrupt", "identity_invalid"):
            raise undecided(layer, attempt, error.message) from error
        raise
    return process


# --- runners --------------------------------------------------------------------------------------


def _begin(around: Around, layer: Layer, attempt: str, wishes: _Wishes) -> str | None:
    """Have a runner begin, and stay until it has ended; what went wrong then, in words."""
    place = place_of(layer, attempt)
    for _ in range(_MAX_STARTS):
        if wishes.stop.is_set():
            break
        complaint = _start(around, layer, attempt, wishes)
        if any(around.disk.kind(f"{place}/{name}") for name in (PROCESS, RESULT)):
            return complaint
        if complaint is not None:
            raise _failed(attempt, complaint)
    if wishes.stop.is_set():
        raise _interrupted(attempt)
    raise _failed(attempt, f"{_MAX_STARTS} of them ended without having begun")


def _start(around: Around, layer: Layer, attempt: str, wishes: _Wishes) -> str | None:
    """Start a runner and stay until it has ended; what went wrong, in words."""
    argv = [*around.runner, str(around.disk.root), place_of(layer, attempt)]
    with tempfile.TemporaryFile() as complaint:
        try:
            runner = subprocess.Popen(
                argv,
                # Modules are looked for where a runner starts: not in a folder of agents.
                cwd="/",
                env=dict(around.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaint,
                start_new_session=True,
            )
        except OSError as error:
            raise _failed(attempt, f"{argv[0]!r}: {error.strerror}") from error
        _started[:] = [one for one in _started if one.poll() is None]
        _started.append(runner)
        wishes.until(
            lambda: runner.poll() is not None,
            lambda: runner.send_signal(signal.SIGTERM),
        )
        if runner.returncode <= 0:
            # Killed, it may be tried again; otherwise it did all that was to be done.
            return None
        size = complaint.seek(0, os.SEEK_END)
        complaint.seek(max(0, size - _COMPLAINT_BYTES))
        said = visible(complaint.read().decode("utf-8", "replace").strip())
        return f"it ended with status {runner.returncode} and said '{said}'"


def _await(runner: ProcessIdentity, wishes: _Wishes) -> None:
    """Stay until somebody else's runner has ended."""

    def ask() -> None:
        facts = look(runner.pid)
        if facts is not None and facts.started == runner.started:
            members.send(facts, signal.SIGTERM)

    wishes.until(lambda: state(runner) != "alive", ask)


def _interrupted(attempt: str) -> CallboardError:
    return CallboardError(
        "attempt_interrupted",
        f"a stop was asked for before anything of the attempt {attempt} was executed",
        "run again to have it carried out",
        {"attempt_id": attempt},
    )


def _failed(attempt: str, what: str) -> CallboardError:
    return CallboardError(
        "runner_failed",
        f"no runner could begin the attempt {attempt}: {what}",
        "put right what it says, and run again; nothing was executed",
        {"attempt_id": attempt},
    )
