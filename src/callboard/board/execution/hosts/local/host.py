"""This machine as a host: a supervisor process for each run, and the registry as its memory.

Source: specification 1, §7.8; wire-v3 §10. The registry's swaps decide what may still run, never a
clock: a grace only says how long a launch is left alone before it is ruled out.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from callboard import telemetry
from callboard.board.execution.carriage import Carriage
from callboard.board.execution.host import (
    RUN_UNKNOWN,
    CancelAnswer,
    LaunchAnswer,
    Log,
    Order,
    RuledOut,
    RunFacts,
    RunStanding,
    Sighting,
)
from callboard.board.execution.hosts.local.registry import new_run_id
from callboard.board.execution.hosts.local.registry_rows import WorkerRun
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.execution.site import Site
from callboard.board.protocol.policy import Profile
from callboard.board.publishing.recipe import MAX_RECIPE_BYTES
from callboard.board.storage.transport import connection_variables
from callboard.errors import CallboardError
from callboard.processes import members
from callboard.processes.identity import ProcessIdentity, look
from callboard.processes.identity import state as liveness
from callboard.processes.orphans import stop_orphans

# How long a supervisor that lives may take to begin. Ruling it out earlier would do no harm, as it
# then never begins, but would cost the Work an attempt.
LAUNCH_GRACE_MS = 60_000
ORPHAN_GRACE_S = 2.0
SUPERVISOR_LOST = "supervisor_lost"
EVENT = "host_dispatch"
SUPERVISOR_MODULE = "callboard.board.execution.hosts.local.supervisor"

_MAX_NAMED = 5
# 128 bits in decimal: nothing else is ever made a part of a path.
_RUN_ID = re.compile(r"[0-9]{1,39}")

# They outlive the process that started them, and must be collected all the same.
_launched: list[subprocess.Popen[bytes]] = []


def reap() -> None:
    """Collect the supervisors that this process started and that have ended."""
    _launched[:] = [one for one in _launched if one.poll() is None]


class LocalHost:
    """The host port for one site. `environment` is what supervisors inherit; without it this host
    can be asked, and launches nothing."""

    def __init__(self, site: Site, environment: Mapping[str, str] | None = None) -> None:
        self._site = site
        self._carriage = Carriage(site)
        self._environment = {
            name: value
            for name, value in (environment or {}).items()
            if not name.startswith("GIT_")
        }
        if site.remote is not None:
            # The supervisor reaches the remote as this process does.
            self._environment |= connection_variables(environment or {})

    def resolve(self, profile: Profile) -> str:
        """The commit that the profile pins, which this repository has, with the recipe in it."""
        found = None
        if self._carriage.bring_commit(profile.ref):
            found = self._site.repository.read_file(profile.ref, profile.workflow, MAX_RECIPE_BYTES)
        if found is None:
            raise CallboardError(
                "worker_unavailable",
                f"{profile.workflow} at {profile.ref[:12]} is not in this repository",
                "bring that commit here, or run the board where it is",
                {"workflow": profile.workflow, "ref": profile.ref},
            )
        return profile.ref

    # --- launching -----------------------------------------------------------------------------

    def launch(self, order: Order) -> LaunchAnswer:
        """Register the run and start its supervisor."""
        run_id = new_run_id()
        folder = RunFolder.of(self._site.folders.state, run_id)
        try:
            with folder.launching() as log:
                self._prepare(order, run_id, folder)
                self._spawn(order.dispatch_id, run_id, folder, log)
        except OSError as error:
            failed = CallboardError(
                "launch_failed",
                f"no run can be started in {str(folder.root)!r}: {error.strerror}",
                "check free space, permissions and the limit of processes, then: callboard run",
                {"dispatch_id": order.dispatch_id, "run_id": run_id, "errno": error.errno},
            )
            return self._failed(order, run_id, failed)
        except CallboardError as error:
            if error.code == "run_exists":
                return LaunchAnswer("taken")
            return self._failed(order, run_id, error)
        return LaunchAnswer("launched", run_id)

    def _failed(self, order: Order, run_id: str, error: CallboardError) -> LaunchAnswer:
        """Put up the fence behind a launch that failed, so that others need not wait for us."""
        try:
            ruled_out = self.rule_out(order) == "ruled_out"
        except CallboardError:
            ruled_out = False
        return LaunchAnswer("refused" if ruled_out else "uncertain", run_id, error)

    def _prepare(self, order: Order, run_id: str, folder: RunFolder) -> None:
        site = self._site
        site.registry.prepare(
            repository=site.key,
            dispatch_id=order.dispatch_id,
            sender_run_id=order.sender_run_id,
            workflow=order.profile.workflow,
            ref=order.profile.ref,
            workspace=folder.work,
            now_ms=site.clock.now_ms(),
            run_id=run_id,
        )

    def _spawn(self, dispatch_id: str, run_id: str, folder: RunFolder, log: IO[bytes]) -> None:
        """Start the supervisor in a session of its own: it outlives this process."""
        site = self._site
        argv = [
            sys.executable,
            # The folder it starts in is open to the worker: no code comes from there.
            "-P",
            "-m",
            SUPERVISOR_MODULE,
            "--repository",
            str(site.repository.git_dir),
            "--branch",
            site.branch,
            "--config",
            str(site.folders.config),
            "--state",
            str(site.folders.state),
            "--dispatch",
            dispatch_id,
            "--run",
            run_id,
        ]
        if site.remote is not None:
            argv += ["--remote", site.remote.name, "--remote-timeout", f"{site.remote.timeout_s:g}"]
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder.root,
            env=self._environment | telemetry.outgoing(self._environment),
            start_new_session=True,
        )
        _launched.append(process)

    # --- looking -------------------------------------------------------------------------------

    def find(self, order: Order) -> Sighting:
        """What the registry has for the dispatch; without a row, whether one may still come."""
        row = self._row(order)
        if row is None:
            return self._unseen(order)
        if row.state == "void":
            return Sighting((), "ruled_out")
        if row.state == "prepared":
            return Sighting((), "pending" if self._may_begin(row) else "complete")
        return Sighting((self._facts(order, row),), "complete")

    def inspect(self, order: Order, run_id: str) -> RunFacts:
        """The row of that very run."""
        row = self._row(order)
        if row is None or row.run_id != run_id:
            # The board knows of a run that this registry has no record of: it proves nothing.
            profile = order.profile
            return RunFacts(
                run_id, 1, profile.workflow, profile.ref, "", EVENT, "unknown",
                why=RUN_UNKNOWN,
            )  # fmt: skip
        return self._facts(order, row)

    def _row(self, order: Order) -> WorkerRun | None:
        return self._site.registry.find(self._site.key, order.dispatch_id)

    def _unseen(self, order: Order) -> Sighting:
        """A marker without a row: pending while its sender lives."""
        registry = self._site.registry
        sender = registry.dispatcher(order.sender_run_id)
        if sender is None:
            return Sighting((), "unknown", "sender_unknown_here")
        if liveness(sender.identity) != "dead":
            return Sighting((), "pending")
        # It may be open under another name of this repository, which was moved or copied since:
        # a fence under the present name would not stop that run.
        if any(run.dispatch_id == order.dispatch_id for run in registry.list_open()):
            return Sighting((), "unknown", RUN_UNKNOWN)
        return Sighting((), "complete")

    def _may_begin(self, row: WorkerRun) -> bool:
        """Whether a prepared run's supervisor is on its way, and not for too long already."""
        age_ms = self._site.clock.now_ms() - (row.prepared_ms or 0)
        folder = RunFolder.of(self._site.folders.state, row.run_id)
        return folder.is_held() and age_ms < LAUNCH_GRACE_MS

    def _facts(self, order: Order, row: WorkerRun) -> RunFacts:
        standing, why = _standing(row)
        # Whose run it is, is known by its sender, whom the start marker names.
        principal = order.principal if row.sender_run_id == order.sender_run_id else ""
        return RunFacts(
            row.run_id,
            1,
            str(row.workflow),
            str(row.ref),
            principal,
            EVENT,
            standing,
            conclusion=row.conclusion,
            why=why,
        )

    # --- ending --------------------------------------------------------------------------------

    def rule_out(self, order: Order) -> RuledOut:
        """Void the row, or put up a void one. The registry lets only one side have it."""
        site = self._site
        answer = site.registry.void(
            site.key, order.dispatch_id, order.sender_run_id, now_ms=site.clock.now_ms()
        )
        if answer in ("voided", "already_void"):
            return "ruled_out"
        return "pending" if answer in ("running", "ended") else "unknown"

    def cancel(self, order: Order, run_id: str) -> CancelAnswer:
        """Ask the supervisor to stop its worker and wrap up; end what a dead one left behind.

        Raises `process_unknown` where what is left cannot be signalled from here.
        """
        row = self._row(order)
        if row is None or row.run_id != run_id or row.state in ("prepared", "void"):
            return "unknown"
        standing, _why = _standing(row)
        if standing == "running" and row.supervisor is not None:
            return "asked" if _terminate(row.supervisor) else "unknown"
        if standing != "abandoned":
            return "ended" if standing == "ended" else "unknown"
        survivors = stop_orphans(row.run_id, row.worker, ORPHAN_GRACE_S)
        if survivors:
            # Perhaps of the run, and still at its work: another attempt must not begin beside it.
            self._note_once(row, survivors)
            return "unknown"
        self._site.registry.finish(
            row.run_id,
            conclusion=SUPERVISOR_LOST,
            exit_code=None,
            signal=None,
            survivors=[],
            now_ms=self._site.clock.now_ms(),
        )
        return "ended"

    def _note_once(self, row: WorkerRun, survivors: tuple[members.Survivor, ...]) -> None:
        named = ", ".join(f"{one.pid} ({one.command})" for one in survivors[:_MAX_NAMED])
        text = (
            f"its supervisor is gone, and process {named} may be of this run: end what is, then "
            "callboard reconcile"
        )
        if not any(note["text"] == text for note in row.notes):
            self._site.registry.note(row.run_id, text, now_ms=self._site.clock.now_ms())

    def logs(self, run_id: str, *, limit_bytes: int) -> tuple[Log, ...]:
        """The ends of the log files in the run's folder."""
        if not _RUN_ID.fullmatch(run_id):
            return ()
        folder = RunFolder.of(self._site.folders.state, run_id).root
        found = (_tail(path, limit_bytes) for path in sorted(folder.glob("*.log")))
        return tuple(log for log in found if log is not None)


def _standing(row: WorkerRun) -> tuple[RunStanding, str | None]:
    """How a row's run stands, and why nobody can tell where that is so."""
    if row.state == "ended":
        return "ended", None
    if row.state == "prepared":
        return "queued", None
    if row.state == "void":
        return "unknown", RUN_UNKNOWN
    alive = "unknown" if row.supervisor is None else liveness(row.supervisor)
    if alive == "unknown":
        return "unknown", "supervisor_unknown_here"
    return ("running" if alive == "alive" else "abandoned"), None


def _terminate(process: ProcessIdentity) -> bool:
    facts = look(process.pid)
    if facts is None or facts.started != process.started:
        return False
    return members.send(facts, signal.SIGTERM)


def _tail(path: Path, limit_bytes: int) -> Log | None:
    """The end of a plain file; None for anything else, and for what cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return None
        start = max(0, facts.st_size - limit_bytes)
        return Log(path.name, os.pread(descriptor, limit_bytes, start), start > 0)
    except OSError:
        return None
    finally:
        os.close(descriptor)
