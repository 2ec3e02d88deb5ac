"""How an attempt ended, as its one result: made from what was seen, published, read back.

It judges exit statuses mechanically and never what a role did. It starts and stops nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from callboard.errors import CallboardError
from callboard.layers import restoring
from callboard.layers.around import Around
from callboard.layers.attempts import place_of, trace_of
from callboard.layers.disk import OF_MACHINE, Disk
from callboard.layers.records.attempt import (
    AttemptProcess,
    AttemptResult,
    Leftover,
    ResultClass,
    Stream,
    UsageReport,
)
from callboard.layers.records.base import encode, read
from callboard.layers.records.evaluation import GitSubject
from callboard.layers.records.state import Usage
from callboard.layers.records.workflow import Harness
from callboard.layers.sealing import put_record, seal
from callboard.layers.stored import corrupt, holds, read_record
from callboard.layers.subject import subject_of
from callboard.layers.tree import Layer
from callboard.processes.held import Outcome
from callboard.processes.logs import LogSummary
from callboard.processes.members import Survivor
from callboard.visible import visible

PROCESS = "process.json"
RESULT = "result.json"
USAGE = "usage.json"
GIT_BEFORE = "git_before.json"
GIT_AFTER = "git_after.json"
STDOUT = "stdout.log"
STDERR = "stderr.log"

MAX_USAGE_BYTES = 64 * 1024
_Own = TypeVar("_Own", AttemptProcess, AttemptResult)

_MAX_NOTE = 1_000
_MAX_NOTES = 20
_MAX_SURVIVORS = 200


@dataclass(frozen=True, slots=True)
class Ending:
    """How the harness ended, without what is read from files afterwards. Durations in ms."""

    classification: ResultClass
    detail: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    duration_ms: int = 0
    stdout: Stream | None = None
    stderr: Stream | None = None
    survivors: tuple[Leftover, ...] = ()


def ending_of(outcome: Outcome, harness: Harness) -> Ending:
    """The mechanical judgement of how a command ended."""
    classification: ResultClass = "crash"
    detail = None
    if outcome.ended == "exited":
        classification = _by_exit(outcome.exit_code or 0, harness)
    elif outcome.ended == "start_failed":
        classification, detail = "deterministic", outcome.reason
    elif outcome.ended != "signalled":
        detail = outcome.ended
    return Ending(
        classification=classification,
        detail=detail,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        duration_ms=outcome.duration_ms,
        stdout=_stream(outcome.stdout),
        stderr=_stream(outcome.stderr),
        survivors=leftovers(outcome.survivors),
    )


def _by_exit(exit_code: int, harness: Harness) -> ResultClass:
    if exit_code == 0:
        return "success"
    return "transient" if exit_code in harness.transient_exit_codes else "deterministic"


def leftovers(survivors: tuple[Survivor, ...]) -> tuple[Leftover, ...]:
    """Survivors as the result names them, at most 200."""
    return tuple(
        Leftover(pid=one.pid, name=visible(one.command)) for one in survivors[:_MAX_SURVIVORS]
    )


def _stream(log: LogSummary) -> Stream:
    return Stream(kept_bytes=log.kept_bytes, dropped_bytes=log.seen_bytes - log.kept_bytes)


# --- making and publishing ------------------------------------------------------------------------


def note(error: CallboardError | OSError, what: str) -> str:
    """A remark for people on something that failed, and changed nothing about the result."""
    why = str(error) if isinstance(error, CallboardError) else error.strerror or "an error"
    return visible(f"{what}: {why}")[:_MAX_NOTE]


def subject_now(around: Around) -> tuple[GitSubject | None, list[str]]:
    """The repository's subject; None where there is no git or none can be told, and why."""
    if around.git is None:
        return None, []
    try:
        return subject_of(around.git, around.disk.root), []
    except CallboardError as error:
        return None, [note(error, "the state of the repository is not known")]


def conclude(
    around: Around,
    layer: Layer,
    attempt: str,
    ending: Ending,
    *,
    process: AttemptProcess | None,
    git_before: GitSubject | None,
    notes: list[str],
) -> AttemptResult:
    """Seal the trace of an attempt that has ended, and publish its result last.

    Only for whoever owns the attempt: the runner whose record is `process`, or who has proven it
    dead. A trace that cannot be sealed is noted; the result is published all the same.
    """
    notes = [*notes, *_put_back(around.disk, layer, attempt, process)]
    report, remarks = _reported(around.disk, f"{place_of(layer, attempt)}/{USAGE}")
    git_after, more = subject_now(around)
    notes += [*remarks, *more, *_sealed(around, layer, attempt, git_before, git_after)]
    result = AttemptResult(
        schema_version=1,
        attempt_id=attempt,
        **{name: getattr(ending, name) for name in Ending.__slots__},
        usage=_usage_of(report, ending.duration_ms),
        git_before=git_before,
        git_after=git_after,
        ended_at_ms=around.clock.now_ms(),
        notes=tuple(notes[:_MAX_NOTES]),
    )
    # What a role may have put there itself is no result.
    put_record(around.disk, f"{place_of(layer, attempt)}/{RESULT}", result)
    return result


def _put_back(disk: Disk, layer: Layer, attempt: str, process: AttemptProcess | None) -> list[str]:
    """See that the result has a folder with the record of its runner, whatever the harness did."""
    restoring.attempt_folder(disk, layer, attempt)
    place = f"{place_of(layer, attempt)}/{PROCESS}"
    if process is None or holds(disk, place, encode(process)):
        return []
    put_record(disk, place, process)
    return [f"its {PROCESS} was changed or taken away while it ran, and is put back"]


def _usage_of(report: UsageReport, duration_ms: int) -> Usage:
    return Usage(
        attempts=1,
        duration_ms=duration_ms,
        input_tokens=report.input_tokens,
        output_tokens=report.output_tokens,
        cost_microusd=report.cost_microusd,
    )


def _reported(disk: Disk, place: str) -> tuple[UsageReport, list[str]]:
    """What the harness says that it used; nothing, and a remark, where that cannot be read."""
    none = UsageReport(schema_version=1)
    try:
        data = disk.read(place, MAX_USAGE_BYTES, what="the file")
        return read(data, UsageReport, USAGE, limit_bytes=MAX_USAGE_BYTES), []
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
        if error.code == "file_missing":
            return none, []
        return none, [note(error, "the usage report was no use")]


def _sealed(
    around: Around,
    layer: Layer,
    attempt: str,
    git_before: GitSubject | None,
    git_after: GitSubject | None,
) -> list[str]:
    """The trace sealed, or why it could not be."""
    try:
        restoring.folders(around.disk, layer)
        _seal(around, layer, attempt, git_before, git_after)
    except (CallboardError, OSError) as error:
        return [note(error, "the trace could not be sealed")]
    return []


def _seal(
    around: Around,
    layer: Layer,
    attempt: str,
    git_before: GitSubject | None,
    git_after: GitSubject | None,
) -> None:
    trace = trace_of(layer, attempt)
    around.disk.make_folder(trace)
    for name, subject in ((GIT_BEFORE, git_before), (GIT_AFTER, git_after)):
        if subject is not None:
            put_record(around.disk, f"{trace}/{name}", subject)
    seal(
        around.disk,
        layer,
        attempt,
        git_before=git_before,
        git_after=git_after,
        now_ms=around.clock.now_ms(),
    )


# --- reading --------------------------------------------------------------------------------------


def read_result(disk: Disk, layer: Layer, attempt: str) -> AttemptResult | None:
    """The published result; None where there is none, `layer_corrupt` for a damaged one."""
    return _read_own(disk, f"{place_of(layer, attempt)}/{RESULT}", AttemptResult, attempt)


def read_process(disk: Disk, layer: Layer, attempt: str) -> AttemptProcess | None:
    """Who carries the attempt out; None before anybody does, `layer_corrupt` for a damaged file."""
    return _read_own(disk, f"{place_of(layer, attempt)}/{PROCESS}", AttemptProcess, attempt)


def _read_own(disk: Disk, place: str, kind: type[_Own], attempt: str) -> _Own | None:
    if disk.kind(place) is None:
        return None
    record = read_record(disk, place, kind)
    if record.attempt_id != attempt:
        raise corrupt(place, f"it is of the attempt {record.attempt_id}")
    return record
