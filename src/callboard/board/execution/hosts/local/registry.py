"""The host's record of runs: who dispatched, what was prepared, started, ended or ruled out.

One SQLite file in the user's state folder, shared by every process of the host. It is evidence
about runs (wire-v3 §10) and no authority over work: it never decides what may run next, and a row
is never deleted nor taken back.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from callboard.board.execution.hosts.local.registry_file import open_registry_file, refused
from callboard.board.execution.hosts.local.registry_rows import DispatcherRun, WorkerRun, worker_run
from callboard.errors import CallboardError
from callboard.processes.identity import ProcessIdentity

VoidAnswer = Literal["voided", "already_void", "running", "ended", "unknown"]
FinishAnswer = Literal["ended", "already_ended"]

_MAX_NOTE_CHARACTERS = 1_000
_MAX_NOTES = 100


def new_run_id() -> str:
    """A fresh run id: the decimal of 128 random bits, never 0."""
    while not (number := secrets.randbits(128)):
        pass
    return str(number)


class RunRegistry:
    """The registry in `folder`, which is made (0700) where it is missing.

    Every method is one transaction and safe among any number of processes and threads; times are
    Unix ms. All raise `CallboardError`: `registry_busy` (nothing written, try again),
    `registry_unusable`, `registry_invalid` or `registry_newer`.
    """

    def __init__(self, folder: Path, *, busy_timeout_s: float = 30.0) -> None:
        self._folder = folder
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inherited: list[sqlite3.Connection] = []
        self._owner_pid = 0

    def close(self) -> None:
        """Let go of the file; the next call opens it again."""
        with self._lock:
            if self._connection is not None and self._owner_pid == os.getpid():
                self._connection.close()
                self._connection = None

    # --- dispatcher runs ----------------------------------------------------------------------

    def register_dispatcher(self, identity: ProcessIdentity, *, now_ms: int) -> str:
        """Record that `identity` dispatches from now on; returns its new run id."""
        run_id = new_run_id()
        with self._writing() as database:
            database.execute(
                "INSERT INTO dispatcher_run (run_id, identity, registered_ms) VALUES (?, ?, ?)",
                (run_id, _json(identity.document()), now_ms),
            )
        return run_id

    def dispatcher(self, run_id: str) -> DispatcherRun | None:
        """The dispatcher run of that id; None where this host never registered it."""
        with self._reading() as database:
            row = database.execute(
                "SELECT run_id, identity, registered_ms FROM dispatcher_run WHERE run_id = ?",
                (run_id,),
            ).fetchone()
        if row is None:
            return None
        identity = ProcessIdentity.from_document(json.loads(row["identity"]))
        return DispatcherRun(row["run_id"], identity, row["registered_ms"])

    # --- worker runs --------------------------------------------------------------------------

    def prepare(
        self,
        *,
        repository: str,
        dispatch_id: str,
        sender_run_id: str,
        workflow: str,
        ref: str,
        workspace: Path,
        now_ms: int,
        run_id: str | None = None,
    ) -> WorkerRun:
        """Record that a run is about to be launched for the dispatch; its state is `prepared`.

        `repository` is the caller's key for the queue's repository. Raises `run_exists` where
        the dispatch has a row already, a void one included: then this sender must not launch;
        and `sender_unknown` where the sender is no dispatcher of this registry.
        """
        with self._writing() as database:
            if not _is_dispatcher(database, sender_run_id):
                raise CallboardError(
                    "sender_unknown",
                    f"run {sender_run_id[:60]!r} is no dispatcher registered on this host",
                    "register the dispatching process first",
                )
            found = _find(database, repository, dispatch_id)
            if found is not None:
                raise CallboardError(
                    "run_exists",
                    f"dispatch {dispatch_id!r} has run {found.run_id}, which is {found.state}",
                    "do not launch; reconcile the run that is there",
                    {"dispatch_id": dispatch_id, "run_id": found.run_id, "state": found.state},
                )
            database.execute(
                "INSERT INTO worker_run (run_id, repository, dispatch_id, sender_run_id, workflow,"
                " ref, workspace, state, prepared_ms) VALUES (?, ?, ?, ?, ?, ?, ?, 'prepared', ?)",
                (
                    run_id or new_run_id(), repository, dispatch_id, sender_run_id, workflow,
                    ref, str(workspace), now_ms,
                ),
            )  # fmt: skip
            return _existing(_find(database, repository, dispatch_id))

    def claim_running(
        self, run_id: str, dispatch_id: str, supervisor: ProcessIdentity, *, now_ms: int
    ) -> bool:
        """prepared → running, for the one supervisor that gets True; all others must not start."""
        with self._writing() as database:
            changed = database.execute(
                "UPDATE worker_run SET state = 'running', supervisor = ?, running_ms = ?"
                " WHERE run_id = ? AND dispatch_id = ? AND state = 'prepared'",
                (_json(supervisor.document()), now_ms, run_id, dispatch_id),
            ).rowcount
        return changed == 1

    def void(
        self, repository: str, dispatch_id: str, sender_run_id: str, *, now_ms: int
    ) -> VoidAnswer:
        """Rule out that the dispatch's run will ever execute, and say whether that is proven.

        `voided` and `already_void` prove nonlaunch, `running` and `ended` the contrary. Without a
        row, a void one is put up as a fence if the sender is a dispatcher of this registry: its
        later `prepare` fails. `unknown`: the sender, or the run's sender, is not ours to speak of.
        """
        with self._writing() as database:
            if not _is_dispatcher(database, sender_run_id):
                return "unknown"
            found = _find(database, repository, dispatch_id)
            if found is None:
                database.execute(
                    "INSERT INTO worker_run (run_id, repository, dispatch_id, sender_run_id,"
                    " state, void_ms) VALUES (?, ?, ?, ?, 'void', ?)",
                    (new_run_id(), repository, dispatch_id, sender_run_id, now_ms),
                )
                return "voided"
            if found.sender_run_id != sender_run_id:
                return "unknown"
            if found.state == "prepared":
                database.execute(
                    "UPDATE worker_run SET state = 'void', void_ms = ? WHERE run_id = ?",
                    (now_ms, found.run_id),
                )
                return "voided"
            return "already_void" if found.state == "void" else found.state

    def record_worker(self, run_id: str, worker: ProcessIdentity) -> None:
        """Add the leader of a process group of the run, before it executes anything.

        A run has one for each command (set-up, recipe). Raises `run_not_running`.
        """
        with self._writing() as database:
            run = _running(_by_run(database, run_id), run_id)
            workers = [identity.document() for identity in (*run.workers, worker)]
            database.execute(
                "UPDATE worker_run SET workers = ? WHERE run_id = ?", (_json(workers), run_id)
            )

    def finish(
        self,
        run_id: str,
        *,
        conclusion: str,
        exit_code: int | None,
        signal: int | None,
        survivors: Sequence[Mapping[str, object]],
        now_ms: int,
    ) -> FinishAnswer:
        """running → ended. Repeating it changes nothing: the first conclusion stands.

        `survivors` are documents of processes that outlived the run. Raises `run_not_running`
        where the run never ran.
        """
        with self._writing() as database:
            found = _by_run(database, run_id)
            if found is not None and found.state == "ended":
                return "already_ended"
            _running(found, run_id)
            database.execute(
                "UPDATE worker_run SET state = 'ended', ended_ms = ?, conclusion = ?,"
                " exit_code = ?, signal = ?, survivors = ? WHERE run_id = ?",
                (now_ms, conclusion, exit_code, signal, _json(list(survivors)), run_id),
            )
        return "ended"

    def note(self, run_id: str, text: str, *, now_ms: int) -> None:
        """Add a remark for the person who looks into a run; at most 100, of 1,000 characters."""
        with self._writing() as database:
            found = _by_run(database, run_id)
            if found is None:
                raise _no_run(run_id)
            if len(found.notes) < _MAX_NOTES:
                remark = {"at_ms": now_ms, "text": text[:_MAX_NOTE_CHARACTERS]}
                database.execute(
                    "UPDATE worker_run SET notes = ? WHERE run_id = ?",
                    (_json([*found.notes, remark]), run_id),
                )

    def find(self, repository: str, dispatch_id: str) -> WorkerRun | None:
        """The run of a dispatch; None where this host knows of none, which proves nothing."""
        with self._reading() as database:
            return _find(database, repository, dispatch_id)

    def by_run(self, run_id: str) -> WorkerRun | None:
        """The worker run of that id."""
        with self._reading() as database:
            return _by_run(database, run_id)

    def list_open(self, repository: str | None = None) -> list[WorkerRun]:
        """The runs that are prepared or running, of one repository or of all, oldest first."""
        with self._reading() as database:
            rows = database.execute(
                "SELECT * FROM worker_run WHERE state IN ('prepared', 'running')"
                " AND (? IS NULL OR repository = ?) ORDER BY prepared_ms, run_id",
                (repository, repository),
            ).fetchall()
            return [worker_run(row) for row in rows]

    # --- transactions -------------------------------------------------------------------------

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        yield from self._transaction("BEGIN")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        # IMMEDIATE: what is read inside is still so when it is written.
        yield from self._transaction("BEGIN IMMEDIATE")

    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                database = self._open()
                database.execute(begin)
                try:
                    yield database
                    database.execute("COMMIT")
                except BaseException:
                    if database.in_transaction:
                        database.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise refused(error, self._folder) from error

    def _open(self) -> sqlite3.Connection:
        """The connection of this process."""
        if self._connection is not None and self._owner_pid != os.getpid():
            # SQLite forbids even closing what came over a fork, so it is kept and left alone.
            self._inherited.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._connection = open_registry_file(self._folder, self._busy_timeout_s)
            self._owner_pid = os.getpid()
        return self._connection


def _is_dispatcher(database: sqlite3.Connection, run_id: str) -> bool:
    query = "SELECT 1 FROM dispatcher_run WHERE run_id = ?"
    return database.execute(query, (run_id,)).fetchone() is not None


def _find(database: sqlite3.Connection, repository: str, dispatch_id: str) -> WorkerRun | None:
    row = database.execute(
        "SELECT * FROM worker_run WHERE repository = ? AND dispatch_id = ?",
        (repository, dispatch_id),
    ).fetchone()
    return None if row is None else worker_run(row)


def _by_run(database: sqlite3.Connection, run_id: str) -> WorkerRun | None:
    row = database.execute("SELECT * FROM worker_run WHERE run_id = ?", (run_id,)).fetchone()
    return None if row is None else worker_run(row)


def _existing(found: WorkerRun | None) -> WorkerRun:
    assert found is not None, "a row that this transaction wrote"
    return found


def _running(found: WorkerRun | None, run_id: str) -> WorkerRun:
    if found is None:
        raise _no_run(run_id)
    if found.state != "running":
        raise CallboardError(
            "run_not_running",
            f"run {run_id} is {found.state}, not running",
            "claim it first; a void or ended run never runs again",
            {"run_id": run_id, "state": found.state},
        )
    return found


def _no_run(run_id: str) -> CallboardError:
    return CallboardError(
        "run_missing", f"this host knows no run {run_id[:60]!r}", "check the run id and the host"
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
