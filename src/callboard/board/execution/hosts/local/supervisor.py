"""The supervisor of one run: it owns the run from its start to its Release.

Source: specification 1, §§7.8, 7.14; wire-v3 §10. It executes nothing before the run's binding is
durable on the board, outlives the dispatcher that started it, and records the end of the run
before it frees the slot. Killed anywhere, it leaves a state that reconciliation goes on from.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

from callboard import canonical, files, telemetry
from callboard.board.execution import workspace
from callboard.board.execution.activation import activate
from callboard.board.execution.activation_files import ActivationFiles
from callboard.board.execution.carriage import Carriage
from callboard.board.execution.closing import closed_claims, closed_text
from callboard.board.execution.disposal import dispose
from callboard.board.execution.hosts.local.ending import FAILURE, SUCCESS, Ending
from callboard.board.execution.hosts.local.environment import run_environment
from callboard.board.execution.hosts.local.run_agent import agent_variables, put_agent_files
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.execution.hosts.local.run_summary import write_summary
from callboard.board.execution.hosts.local.run_timing import timing
from callboard.board.execution.outlast import PASSING, outlast
from callboard.board.execution.principal import read_principal
from callboard.board.execution.site import Folders, Site
from callboard.board.execution.wrapup import WrapUp
from callboard.board.outputs.closed import NONE_CLOSED, closed_bytes
from callboard.board.outputs.fault_document import fault_document
from callboard.board.outputs.messages import Terms
from callboard.board.outputs.staging import prepare_folder
from callboard.board.projection.entities import ClaimState, DispatchState
from callboard.board.publishing import lifecycle
from callboard.board.publishing.lifecycle import Proof
from callboard.board.publishing.recipe import MAX_RECIPE_BYTES, Recipe, parse_recipe
from callboard.board.storage.remote_refusals import UNPUBLISHED
from callboard.board.storage.repository import Repository
from callboard.board.storage.transport import DEFAULT_TIMEOUT_S, RemoteAccess
from callboard.errors import CallboardError
from callboard.git import Git
from callboard.processes import adoption
from callboard.processes.held import Command, HeldProcess, Outcome, hold
from callboard.processes.identity import current

PATIENCE_S = 120.0
# How long the end of a run waits for a remote that is out of reach, or for its turn to write there,
# rather than be lost.
OUTAGE_S = 3_600.0
RUN_ENDED = "run_ended"
NOTHING_OPEN = "nothing_open"
_STOPPED = "stopped"
_SPANS: dict[str, telemetry.SpanName] = {
    "setup": "work-queue.run.setup",
    "worker": "work-queue.run.worker",
}


class Supervisor:
    """Supervises the run `run_id` of `dispatch_id`; `environment` is the outer environment."""

    def __init__(
        self, site: Site, dispatch_id: str, run_id: str, environment: Mapping[str, str]
    ) -> None:
        self._site = site
        self._dispatch_id = dispatch_id
        self._run_id = run_id
        self._environment = environment
        self._folder = RunFolder.of(site.folders.state, run_id)
        self._git = Git(environment.get("PATH", os.defpath))
        self._carriage = Carriage(site)
        self._closed = NONE_CLOSED
        self._sharing: list[ClaimState] = []
        self._held: HeldProcess | None = None
        self._asked_to_stop = False

    def request_stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Stop the worker as at its time limit; the wrap-up still happens."""
        self._asked_to_stop = True
        if self._held is not None:
            self._held.request_stop()

    def run(self) -> bool:
        """Supervise to the Release. False where this run was ruled out before it began."""
        facts = telemetry.Facts(dispatch_id=self._dispatch_id, run_id=self._run_id, run_attempt=1)
        with telemetry.span("work-queue.run.run", **facts):
            return self._supervise()

    def _supervise(self) -> bool:
        registry = self._site.registry
        now_ms = self._site.clock.now_ms()
        if not registry.claim_running(self._run_id, self._dispatch_id, current(), now_ms=now_ms):
            return False
        state = self._bind()
        if state is None:
            self._end(Ending("not_bound"))
            return False
        self._tell(state)
        if state.open_claims == 0:
            self._leave(state)
            return True
        recipe = self._recipe(state)
        ending = self._execute(state, recipe)
        # A worker that shut its own folder has shut in what it staged as well.
        self._folder.reclaim()
        terms = self._terms(state, recipe)
        wrap_up = WrapUp(
            self._site,
            self._git,
            state,
            self._run_id,
            self._folder,
            terms,
            closed=self._closed,
            # Whoever reads of a Claim's end on the board finds the reason in the folder.
            keep=partial(self._write_report, ending),
            on_wait=self._tell_of_waiting,
        )
        telemetry.tell(result=ending.conclusion)
        with telemetry.span("work-queue.run.wrap-up", dispatch_id=self._dispatch_id):
            report = wrap_up.finish_claims()
        self._write_report(ending, report)
        self._end(ending)
        self._release(ending)
        write_summary(self._site, self._folder, self._dispatch_id, self._note)
        self._dispose(state)
        return True

    def _leave(self, state: DispatchState) -> None:
        """End without executing anything: whatever this run was for is over, and by whom."""
        said = closed_text(self._site.publisher.known(), state)
        self._note(said)
        ending = Ending(NOTHING_OPEN, trouble=said)
        self._write_report(ending, {})
        self._end(ending)
        self._release(ending)
        write_summary(self._site, self._folder, self._dispatch_id, self._note)

    def _tell(self, state: DispatchState) -> None:
        """Say for which Claims this run is, and note which of them have ended already."""
        members = state.assignment.claims
        history = self._site.publisher.known()
        self._closed = closed_claims(history, state)
        open_members = self._closed.open_members(state.assignment)
        self._sharing = [history.projection.claims[one.claim_id] for one in open_members]
        telemetry.tell(
            pool=state.assignment.pool,
            claim_refs=[one.claim_id for one in members],
            work_refs=[one.work_id for one in members],
        )

    def _bind(self) -> DispatchState | None:
        """Make the binding durable; None where the board refuses it."""
        try:
            bind = partial(activate, self._site, self._dispatch_id, self._run_id)
            return outlast(bind, self._tell_of_waiting)
        except CallboardError as error:
            if error.code in UNPUBLISHED | PASSING:
                raise
            self._note(f"the board refused the binding: {error}")
            return None

    # --- the worker's commands -----------------------------------------------------------------

    def _execute(self, state: DispatchState, recipe: Recipe | None) -> Ending:
        if recipe is None:
            return Ending("worker_unavailable", trouble="the worker's recipe cannot be read")
        ending = Ending(FAILURE)
        try:
            self._prepare(state, recipe)
        except CallboardError as error:
            return self._cut_short(ending, "the run could not be prepared", error)
        steps = [("worker", recipe.command, recipe.timeout_s)]
        if recipe.setup is not None:
            steps.insert(0, ("setup", recipe.setup, recipe.setup_timeout_s))
        for name, argv, timeout_s in steps:
            if self._asked_to_stop:
                return replace(ending, conclusion=_STOPPED)
            try:
                with telemetry.span(_SPANS[name], dispatch_id=self._dispatch_id) as span:
                    began_ms, outcome = self._run_command(name, argv, timeout_s, recipe)
                    span.set(result=outcome.ended)
            except CallboardError as error:
                return self._cut_short(ending, f"{name} could not be started", error)
            ending = ending.after(name, argv[0], outcome, began_ms=began_ms)
            if outcome.ended == "start_failed":
                self._say_not_started(name, argv[0], str(outcome.reason))
            if ending.conclusion != SUCCESS:
                break
        return ending

    def _cut_short(self, ending: Ending, what: str, error: CallboardError) -> Ending:
        """The ending where this host could not go on; noted for people as well."""
        self._note(f"{what}: {error}")
        return replace(
            ending,
            conclusion=error.code,
            trouble=f"{what}: {error.message}",
            error=fault_document(error),
        )

    def _recipe(self, state: DispatchState) -> Recipe | None:
        """The recipe of the commit that the profile pins, never a newer one; None without it."""
        profile = state.profile
        try:
            self._carriage.bring_commit(profile.ref)
            data = self._site.repository.read_file(profile.ref, profile.workflow, MAX_RECIPE_BYTES)
            if data is not None:
                return parse_recipe(data, name=state.assignment.worker_profile)
        except CallboardError as error:
            self._note(f"{profile.workflow} at {profile.ref[:12]}: {error}")
        return None

    def _terms(self, state: DispatchState, recipe: Recipe | None) -> Terms:
        """What the run may deliver: the recipe's outputs within the policy's limits."""
        outputs = () if recipe is None else recipe.outputs
        return Terms.of(
            {rule.type: (rule.min, rule.max) for rule in outputs},
            object_format=workspace.object_format(state.profile.ref),
            result_bytes=self._site.publisher.known().projection.policy.limits.result_bytes,
            max_dispatches=0 if recipe is None else recipe.max_dispatches,
            memory=None if recipe is None else recipe.memory,
        )

    def _prepare(self, state: DispatchState, recipe: Recipe) -> None:
        folder = self._folder
        with workspace.disk_faults(folder.root):
            folder.make()
            folder.put_command(ActivationFiles(folder.root).context)
            prepare_folder(folder.staging, self._terms(state, recipe))
            files.publish(folder.assignment, canonical.encode(state.assignment) + b"\n")
            files.publish(folder.claims, closed_bytes(self._closed))
            put_agent_files(folder, self._site, state.assignment, with_tools=recipe.mcp)
        self._carriage.bring_inputs(state.assignment)
        workspace.create(
            self._git, self._site.repository.common_dir, state.profile.ref, folder.work
        )

    def _run_command(
        self, name: str, argv: Sequence[str], timeout_s: float, recipe: Recipe
    ) -> tuple[int, Outcome]:
        """How the command ended, and when it was let go, in Unix ms."""
        folder = self._folder
        outer = self._environment
        path = f"{folder.bin}{os.pathsep}{outer.get('PATH', os.defpath)}"
        environment = run_environment(
            recipe.env,
            {**outer, "PATH": path},
            {
                "CALLBOARD_ASSIGNMENT": str(folder.assignment),
                "CALLBOARD_CLAIMS": str(folder.claims),
                "CALLBOARD_STAGING": str(folder.staging),
                **agent_variables(folder, with_tools=recipe.mcp),
                **telemetry.outgoing(outer),
            },
            home=folder.home,
            temporary=folder.temporary,
        )
        command = Command(
            argv=tuple(argv),
            env=environment,
            cwd=folder.work,
            stdout=folder.log(name, "stdout"),
            stderr=folder.log(name, "stderr"),
            timeout_s=timeout_s,
        )
        with hold(command, run_id=self._run_id) as held:
            self._site.registry.record_worker(self._run_id, held.identity)
            self._held = held
            if self._asked_to_stop:
                held.request_stop()
            try:
                return self._site.clock.now_ms(), held.run()
            finally:
                self._held = None

    def _say_not_started(self, name: str, program: str, reason: str) -> None:
        """Leave a line where the command would have complained, had it begun."""
        line = f"callboard: {program!r} could not be started: {reason}\n"
        log = self._folder.log(name, "stderr")
        try:
            with log.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(line)
        except OSError as error:
            self._note(f"{str(log)!r} cannot be written: {error.strerror}")

    # --- the end -------------------------------------------------------------------------------

    def _end(self, ending: Ending) -> None:
        self._site.registry.finish(
            self._run_id,
            conclusion=ending.conclusion,
            exit_code=ending.exit_code,
            signal=ending.signal,
            survivors=ending.survivors,
            now_ms=self._site.clock.now_ms(),
        )

    def _release(self, ending: Ending) -> None:
        proof = Proof("terminal_run", "host_api", conclusion=ending.conclusion)
        actor = self._site.actor("reconciler")
        self._site.publisher.publish(lifecycle.release(self._dispatch_id, proof, RUN_ENDED, actor))

    def _dispose(self, state: DispatchState) -> None:
        """Remove the private clone, unless it holds work that is nowhere else (then say so)."""
        clone = workspace.Workspace(
            self._folder.work, self._site.repository.common_dir, state.profile.ref
        )
        try:
            dispose(self._git, clone, scratch=self._folder.scratch)
        except CallboardError as error:
            self._note(f"the work tree {str(self._folder.work)!r} is kept: {error.message}")

    def _write_report(self, ending: Ending, report: dict[str, object]) -> None:
        document = {
            "run_id": self._run_id,
            "dispatch_id": self._dispatch_id,
            "conclusion": ending.conclusion,
            "commands": list(ending.commands),
            **timing(ending, self._sharing),
            **({} if ending.trouble is None else {"trouble": ending.trouble}),
            **({} if ending.error is None else {"error": dict(ending.error)}),
            **report,
        }
        try:
            files.publish(self._folder.report, canonical.encode(document) + b"\n", private=True)
        except OSError as error:
            # It is for people only; the board and the registry have what counts.
            self._note(f"the report could not be written: {error.strerror}")

    def _tell_of_waiting(self, error: CallboardError) -> None:
        _say(text := f"{error}; this run waits until that is put right")
        self._note(text)

    def _note(self, text: str) -> None:
        """A remark for people, in the log where it cannot be kept: a run ends well without it."""
        try:
            self._site.registry.note(self._run_id, text, now_ms=self._site.clock.now_ms())
        except CallboardError as error:
            _say(f"{text} ({error.code}: this remark is not on record)")


def _say(text: str) -> None:
    """Leave a line in the supervisor's log, if that can be written; on a full disk it cannot."""
    with suppress(OSError):
        os.write(sys.stderr.fileno(), f"{text}\n".encode(errors="backslashreplace"))


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of a supervisor process; exit 0 once the run is released."""
    parser = argparse.ArgumentParser(prog="callboard-supervisor", description=__doc__)
    for name in ("repository", "branch", "config", "state", "dispatch", "run"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--remote")
    parser.add_argument("--remote-timeout", type=float, default=DEFAULT_TIMEOUT_S)
    asked = parser.parse_args(arguments)
    adoption.adopt_orphans()
    telemetry.begin(dict(os.environ))
    folders = Folders(Path(asked.config), Path(asked.state))
    with Repository.discover(asked.repository) as repository:
        site = Site(
            repository,
            asked.branch,
            folders,
            read_principal(folders.config),
            remote=_access(asked),
            patience_s=PATIENCE_S if asked.remote is None else OUTAGE_S,
        )
        supervisor = Supervisor(site, asked.dispatch, asked.run, dict(os.environ))
        signal.signal(signal.SIGTERM, supervisor.request_stop)
        signal.signal(signal.SIGINT, supervisor.request_stop)
        try:
            supervisor.run()
        except CallboardError as error:
            _say(str(error))
            return 1
        finally:
            telemetry.end()
    return 0


def _access(asked: argparse.Namespace) -> RemoteAccess | None:
    if asked.remote is None:
        return None
    return RemoteAccess(asked.remote, dict(os.environ), asked.remote_timeout, outage_s=OUTAGE_S)


if __name__ == "__main__":
    sys.exit(main())
