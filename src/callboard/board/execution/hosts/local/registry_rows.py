"""The rows of the run registry as typed values.

Reads what the registry wrote; a row that does not have this shape is refused, never repaired.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from callboard.processes.identity import ProcessIdentity

RunState = Literal["prepared", "running", "ended", "void"]


@dataclass(frozen=True, slots=True)
class DispatcherRun:
    """A process that dispatches, under the run id it acts with on the board."""

    run_id: str
    identity: ProcessIdentity
    registered_ms: int


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """A run of one dispatch. Times in Unix ms; a fence (void from the start) has no workflow.

    `workers` are the leaders of its process groups, in the order they were started; `survivors`
    the documents of processes that outlived it; `notes` remarks as `{at_ms, text}`.
    """

    run_id: str
    repository: str
    dispatch_id: str
    sender_run_id: str
    workflow: str | None
    ref: str | None
    workspace: Path | None
    state: RunState
    supervisor: ProcessIdentity | None
    workers: tuple[ProcessIdentity, ...]
    prepared_ms: int | None
    running_ms: int | None
    ended_ms: int | None
    void_ms: int | None
    conclusion: str | None
    exit_code: int | None
    signal: int | None
    survivors: tuple[Mapping[str, object], ...]
    notes: tuple[Mapping[str, object], ...]

    @property
    def worker(self) -> ProcessIdentity | None:
        """The leader that was started last."""
        return self.workers[-1] if self.workers else None


def worker_run(row: sqlite3.Row) -> WorkerRun:
    """A row of the table `worker_run`."""
    fields: dict[str, Any] = dict(row)
    supervisor = fields["supervisor"]
    workspace = fields["workspace"]
    return WorkerRun(
        **fields
        | {
            "workspace": None if workspace is None else Path(workspace),
            "supervisor": supervisor and ProcessIdentity.from_document(json.loads(supervisor)),
            "workers": tuple(
                ProcessIdentity.from_document(worker) for worker in json.loads(fields["workers"])
            ),
            "survivors": tuple(json.loads(fields["survivors"])),
            "notes": tuple(json.loads(fields["notes"])),
        }
    )
