"""Having an attempt carried out, and awaiting its one result.

A runner of its own does the work and goes on without whoever waits here. A second one is only
started where no `process.json` says that one has begun; what cannot be known is refused.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from callboard.errors import CallboardError
from callboard.layers import restoring
from callboard.layers.around import Around
from callboard.layers.attempts import place_of
from callboard.layers.records.attempt import AttemptProcess, AttemptResult
from callboard.layers.records.state import Task
from callboard.layers.records.workflow import Harness, WorkflowContract
from callboard.layers.recovering import has_begun, presume_dead, recover, undecided
from callboard.layers.results import PROCESS, read_process, read_result
from callboard.layers.runners import ask_to_end, at_work, command_line, identity_of, scratch
from callboard.layers.running import harness_of
from callboard.layers.tree import Layer, read_layer
from callboard.processes.identity import ProcessIdentity, of, state, why_unknown
from callboard.visible import visible

_LOOK_EVERY_S = 0.05
_MAX_STARTS = 3
_COMPLAINT_BYTES = 2_000

# They outlive whoever started them, and must be collected all the same.
_started: list[subprocess.Popen[bytes]] = []


def carry_out(
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
    one = _Attempt(around, layer, task.attempt_id, _Wishes(stop, leave or Event()))
    try:
        return one.result(contract.recovery == "drain", harness_of(contract, task))
    except _Left:
        return None


class _Left(Exception):
    """Whoever waited has gone. It never leaves this module."""


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What may end a wait before its end: that the harness ends, or that nobody waits."""

    stop: Event
    leave: Event

    def until(self, has_ended: Callable[[], bool], ask: Callable[[], object]) -> None:
        """Stay until it has ended; ask it to end, once, when that is wished."""
        asked = False
        while not has_ended():
            if self.leave.is_set():
                raise _Left
            if self.stop.is_set() and not asked:
                asked = True
                ask()
            self.leave.wait(_LOOK_EVERY_S)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt, seen by somebody who waits for its result."""

    around: Around
    layer: Layer
    id: str
    wishes: _Wishes

    @property
    def place(self) -> str:
        """Its folder."""
        return place_of(self.layer, self.id)

    def result(self, drain: bool, harness: Harness) -> AttemptResult:
        """Its one result, once there is one."""
        around, layer = self.around, self.layer
        process = self._known()
        notes = []
        if process is None and not self._has_begun():
            complaint = self._begin()
            notes = [] if complaint is None else [f"its runner failed: {complaint}"]
            process = self._process()
        if process is not None:
            self._await(identity_of(process.runner))
        # Not sooner: as long as its runner lives, a result may be anybody's.
        result = read_result(around.disk, layer, self.id)
        if result is not None:
            return result
        if process is None:
            return presume_dead(around, layer, self.id, notes)
        why = why_unknown(identity_of(process.runner))
        if why:
            raise undecided(layer, self.id, why)
        result = recover(
            around,
            layer,
            process,
            harness,
            drain=drain,
            notes=notes,
            stop=self.wishes.stop,
            leave=self.wishes.leave,
        )
        if result is None:
            raise _Left
        return result

    # --- its record -------------------------------------------------------------------------------

    def _known(self) -> AttemptProcess | None:
        """Who carries it out. Where that was taken away, a runner that is at work is awaited."""
        try:
            process = self._process()
        except CallboardError as error:
            if error.code not in ("attempt_undecided", "path_invalid"):
                raise
            process = None
        if process is not None:
            return process
        runner = at_work(self.around, self.place)
        if runner is not None:
            self._await(runner)
        restoring.attempt_folder(self.around.disk, self.layer, self.id)
        return self._process()

    def _process(self) -> AttemptProcess | None:
        """Who carries it out; `attempt_undecided` where the record is of no use."""
        try:
            process = read_process(self.around.disk, self.layer, self.id)
            if process is not None:
                identity_of(process.runner)
                identity_of(process.leader)
        except CallboardError as error:
            if error.code in ("layer_corrupt", "identity_invalid"):
                raise undecided(self.layer, self.id, error.message) from error
            raise
        return process

    def _has_begun(self) -> bool:
        disk, layer = self.around.disk, self.layer
        return read_result(disk, layer, self.id) is not None or has_begun(disk, layer, self.id)

    # --- its runner -------------------------------------------------------------------------------

    def _await(self, runner: ProcessIdentity) -> None:
        """Stay until somebody else's runner has ended."""
        self.wishes.until(lambda: state(runner) != "alive", lambda: ask_to_end(runner))

    def _begin(self) -> str | None:
        """Have a runner begin, and stay until it has ended; what went wrong then, in words."""
        for _ in range(_MAX_STARTS):
            if self.wishes.stop.is_set():
                break
            complaint = self._start()
            if self._process_or_trace():
                return complaint
            if complaint is not None:
                # The layer itself may have been taken away meanwhile.
                read_layer(self.around.disk, self.layer.place)
                raise _failed(self.id, complaint)
        if self.wishes.stop.is_set():
            raise _interrupted(self.id)
        raise _failed(self.id, f"{_MAX_STARTS} of them ended without having begun")

    def _process_or_trace(self) -> bool:
        return self.around.disk.kind(f"{self.place}/{PROCESS}") is not None or self._has_begun()

    def _start(self) -> str | None:
        """Start a runner and stay until it has ended; what went wrong, in words."""
        argv = command_line(self.around, self.place)
        with scratch() as complaint:
            try:
                runner = subprocess.Popen(
                    argv,
                    # Modules are looked for where a runner starts: not in a folder of agents.
                    cwd="/",
                    env=dict(self.around.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=complaint,
                    start_new_session=True,
                )
            except OSError as error:
                raise _failed(self.id, f"{argv[0]!r}: {error.strerror}") from error
            _started[:] = [one for one in _started if one.poll() is None]
            _started.append(runner)
            identity = of(runner.pid)
            assert identity is not None, "an unreaped child is always in the process table"
            self.wishes.until(lambda: runner.poll() is not None, lambda: ask_to_end(identity))
            if runner.returncode <= 0:
                # Killed, it may be tried again; otherwise it did all that was to be done.
                return None
            size = complaint.seek(0, os.SEEK_END)
            complaint.seek(max(0, size - _COMPLAINT_BYTES))
            said = visible(complaint.read().decode("utf-8", "replace").strip())
            return f"it ended with status {runner.returncode} and said '{said}'"


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
