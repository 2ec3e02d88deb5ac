"""How an attempt was carried out: who ran it, how that ended, what the layer made of it.

Source: layers.md §4. An exit status of 0 is a mechanical success and no acceptance.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from callboard.layers.records.base import Count, Id, Name, Record, Sha256, Text, Time
from callboard.layers.records.evaluation import GitSubject
from callboard.layers.records.state import Usage

SkipReason = Literal["link", "special", "name", "size", "unreadable"]
ResultClass = Literal["success", "transient", "deterministic", "crash", "unknown"]


class RecordedProcess(Record, frozen=True, kw_only=True):
    """One process, as `callboard.processes.identity` tells it from all others."""

    pid: int
    started: int
    boot_id: str
    host: str
    pid_namespace: str


class AttemptProcess(Record, frozen=True, kw_only=True):
    """`process.json`: published once, before anything of the harness executes."""

    schema_version: Literal[1]
    attempt_id: Id
    run_mark: Id
    """What every process of the attempt carries in its environment."""
    runner: RecordedProcess
    leader: RecordedProcess
    started_at_ms: Time


class Stream(Record, frozen=True, kw_only=True):
    """What was kept of standard output or standard error."""

    kept_bytes: Count
    dropped_bytes: Count


class Leftover(Record, frozen=True, kw_only=True):
    """A process of the attempt that was still there when it ended."""

    pid: Count
    name: str


class AttemptResult(Record, frozen=True, kw_only=True):
    """`result.json`: how the harness ended. Written once by whoever ran it, or who proved it dead.

    `detail` says in a word why where the exit status does not: `timed_out`, `stopped`,
    `unfinished` (nothing could end it), `attempt_changed`, `runner_died`, or the errno name of a
    start that failed. `notes` are remarks for people, such as on a usage report that was no use.
    """

    schema_version: Literal[1]
    attempt_id: Id
    classification: ResultClass
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None
    signal: Annotated[int, msgspec.Meta(ge=1, le=128)] | None
    detail: Text | None
    duration_ms: Count
    stdout: Stream | None
    stderr: Stream | None
    survivors: tuple[Leftover, ...]
    usage: Usage
    git_before: GitSubject | None
    git_after: GitSubject | None
    ended_at_ms: Time
    notes: Annotated[tuple[Text, ...], msgspec.Meta(max_length=20)] = ()


class AttemptFinished(Record, frozen=True, kw_only=True):
    """`finished.json`: what the layer made of an attempt, once its result was taken in."""

    schema_version: Literal[1]
    attempt_id: Id
    role: Name
    classification: ResultClass
    result_sha256: Sha256
    control: Literal["none", "running", "goal_met", "unresolvable_error", "rejected"]
    finished_at_ms: Time


class UsageReport(Record, frozen=True, kw_only=True):
    """`usage.json` in the attempt's folder: what a harness says that it used. Optional."""

    schema_version: Literal[1]
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_microusd: Count = 0


class TracedFile(Record, frozen=True, kw_only=True):
    """A file of a trace; `path` is relative to the attempt's trace folder."""

    path: Text
    sha256: Sha256
    size_bytes: Count


class SkippedFile(Record, frozen=True, kw_only=True):
    """Something in a trace of which there is no digest; `path` is shown with escapes."""

    path: Text
    reason: SkipReason


class TraceManifest(Record, frozen=True, kw_only=True):
    """`manifest.json` of an attempt's trace: everything that is in it.

    `complete` is false where there was more than a manifest may name.
    """

    schema_version: Literal[1]
    session_id: Id
    attempt_id: Id
    git_before: GitSubject | None
    git_after: GitSubject | None
    files: tuple[TracedFile, ...]
    skipped: tuple[SkippedFile, ...] = ()
    complete: bool = True
    created_at_ms: Time


class TraceSeal(Record, frozen=True, kw_only=True):
    """`trace_seals/<attempt>.json`: the digest of a manifest, kept when the trace is pruned."""

    schema_version: Literal[1]
    attempt_id: Id
    manifest_sha256: Sha256
    files: Count
    size_bytes: Count
    sealed_at_ms: Time
