"""Ending an attempt whose runner died before it published a result.

What is left of the harness is awaited or stopped, as the layer's contract says; only processes
that are proven to be the attempt's are signalled. Nothing is ever executed again here.
"""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Event

from callboard.errors import CallboardError
from callboard.layers.around import Around
from callboard.layers.attempts import place_of, trace_of
from callboard.layers.disk import OF_MACHINE, Disk
from callboard.layers.records.attempt import AttemptProcess, AttemptResult, Stream
from callboard.layers.records.base import read
from callboard.layers.records.evaluation import GitSubject
from callboard.layers.records.workflow import Harness
from callboard.layers.results import (
    GIT_BEFORE,
    PROCESS,
    STDERR,
    STDOUT,
    Ending,
    conclude,
    leftovers,
)
from callboard.layers.runners import identity_of
from callboard.layers.tree import Layer
from callboard.processes.identity import ProcessIdentity, current, state, why_unknown
from callboard.processes.members import Survivor
from callboard.processes.orphans import remaining, stop_orphans

DETAIL = "runner_died"
_LOOK_EVERY_S = 0.05
_MAX_SUBJECT_BYTES = 4096


def undecided(layer: Layer, attempt: str, why: str) -> CallboardError:
    """The refusal of an attempt of which nobody can know whether it still runs."""
    place = place_of(layer, attempt)
    return CallboardError(
        "attempt_undecided",
        f"nobody can tell from here whether the attempt {attempt} still runs: {why}",
        f"end it where it was started; once it is surely over, remove {place}/{PROCESS} and run"
        " again: the attempt then counts as one that failed, and another one follows",
        {"attempt_id": attempt, "why": why},
    )


def recover(
    around: Around,
    layer: Layer,
    process: AttemptProcess,
    harness: Harness,
    *,
    drain: bool,
    notes: list[str],
    stop: Event,
    leave: Event,
) -> AttemptResult | None:
    """Publish the result `unknown` of an attempt whose runner is dead, once its processes ended.

    With `drain` they may end by themselves until the harness's time is over or `stop` is set; once
    `leave` is set nobody waits for that any longer, and the answer is None. `notes` go into the
    result. Raises `attempt_undecided` where they cannot be known from here.
    """
    attempt = process.attempt_id
    leader = identity_of(process.leader)
    if state(leader) == "unknown":
        raise undecided(layer, attempt, why_unknown(leader))
    if drain and leader.boot_id == current().boot_id:
        left_ms = process.started_at_ms + harness.timeout_s * 1000 - around.clock.now_ms()
        _await(process.run_mark, leader, min(left_ms / 1000, harness.timeout_s), (stop, leave))
        if leave.is_set():
            return None
    survivors = _reap(layer, process, leader, harness.grace_s)
    duration_ms = max(0, around.clock.now_ms() - process.started_at_ms)
    ending = Ending("unknown", DETAIL, duration_ms=duration_ms, survivors=leftovers(survivors))
    return _concluded(around, layer, attempt, process, ending, notes)


def has_begun(disk: Disk, layer: Layer, attempt: str) -> bool:
    """Whether a runner made the attempt its own once, by what it left in the trace."""
    trace = trace_of(layer, attempt)
    return any(disk.kind(f"{trace}/{name}") == "file" for name in (STDOUT, STDERR))


def presume_dead(around: Around, layer: Layer, attempt: str, notes: list[str]) -> AttemptResult:
    """Publish the result `unknown` of an attempt that had begun, and has no record of its runner.

    Whoever took that away said by it that nothing of the attempt runs any more. It is not executed
    once more.
    """
    notes = [*notes, f"it had begun, and its {PROCESS} was taken away"]
    return _concluded(around, layer, attempt, None, Ending("unknown", DETAIL), notes)


def _concluded(
    around: Around,
    layer: Layer,
    attempt: str,
    process: AttemptProcess | None,
    ending: Ending,
    notes: list[str],
) -> AttemptResult:
    """The result of a dead runner's attempt, with what it left in the trace."""
    trace = trace_of(layer, attempt)
    ending = replace(
        ending,
        stdout=_kept(around.disk, f"{trace}/{STDOUT}"),
        stderr=_kept(around.disk, f"{trace}/{STDERR}"),
    )
    before = _subject(around.disk, f"{trace}/{GIT_BEFORE}")
    return conclude(around, layer, attempt, ending, process=process, git_before=before, notes=notes)


def _await(
    run_mark: str, leader: ProcessIdentity, wait_s: float, ends: tuple[Event, Event]
) -> None:
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline and remaining(run_mark, leader):
        if any(end.is_set() for end in ends):
            return
        ends[-1].wait(_LOOK_EVERY_S)


def _reap(
    layer: Layer, process: AttemptProcess, leader: ProcessIdentity, grace_s: int
) -> tuple[Survivor, ...]:
    try:
        return stop_orphans(process.run_mark, leader, grace_s)
    except CallboardError as error:
        if error.code == "process_unknown":
            raise undecided(layer, process.attempt_id, error.message) from error
        raise


def _kept(disk: Disk, place: str) -> Stream | None:
    """What is left of a log; how much was dropped died with the runner, and none is said."""
    facts = disk.facts(place)
    return None if facts is None else Stream(kept_bytes=facts.st_size, dropped_bytes=0)


def _subject(disk: Disk, place: str) -> GitSubject | None:
    try:
        return read(disk.read(place, _MAX_SUBJECT_BYTES), GitSubject, GIT_BEFORE)
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
        return None
