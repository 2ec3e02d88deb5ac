"""Reconciliation: what became of launches and deliveries, from evidence, one pass at a time.

Source: specification 1, §§7.8, 7.15, 7.18 with their recovery tables; wire-v3 §10. It never
launches a group whose marker stands, never frees a slot on silence, and records doubt as doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from callboard.board.execution.dispatcher import Dispatcher
from callboard.board.execution.hosts.local.identity import state as liveness
from callboard.board.execution.hosts.local.orphans import stop_orphans
from callboard.board.execution.hosts.local.registry_rows import WorkerRun
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.execution.settle import Settler, run_of
from callboard.board.projection.entities import DispatchState
from callboard.board.publishing import lifecycle
from callboard.board.publishing.lifecycle import Proof
from callboard.board.storage.remote_refusals import UNPUBLISHED
from callboard.errors import CallboardError

# How long a supervisor that lives may take to begin. Ruling it out earlier would do no harm, as it
# then never begins, but would cost the Work an attempt.
LAUNCH_GRACE_MS = 60_000
ORPHAN_GRACE_S = 2.0
SUPERVISOR_LOST = "supervisor_lost"
NOT_LAUNCHED = "not_launched"
OUT_OF_REACH = frozenset(
    {
        "grants_paused", "launch_unresolved", "lifecycle_limit", "process_unknown",
        "run_unknown_here", "sender_unknown_here", "supervisor_unknown_here", "waiting_for_slot",
    }
)  # fmt: skip
"""Findings about groups that no further pass of this process will change by itself."""


@dataclass(slots=True)
class Findings:
    """What one pass did and met: dispatch or Work id -> a short word for it."""

    dispatches: dict[str, str] = field(default_factory=dict)
    deliveries: dict[str, str] = field(default_factory=dict)


class Reconciler:
    """Reconciles one site's board. `dispatcher` resumes groups that were never started."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._site = dispatcher.site
        self._settler = Settler(self._site)

    def run_pass(self, may_start: Callable[[], bool] = lambda: True) -> Findings:
        """Look at every open group and pending delivery once.

        `may_start` is asked before a reserved group is started; a caller that is out of worker
        slots leaves such groups for later.
        """
        findings = Findings()
        projection = self._site.publisher.refresh().projection
        for dispatch_id in list(projection.open_dispatches):
            state = self._site.publisher.refresh().projection.dispatches[dispatch_id]
            if not state.released:
                step = partial(self._reconcile, state, may_start)
                findings.dispatches[dispatch_id] = self._guarded(step)
        projection = self._site.publisher.refresh().projection
        for work_id in list(projection.pending_deliveries):
            findings.deliveries[work_id] = self._guarded(partial(self._settler.settle, work_id))
        return findings

    @staticmethod
    def _guarded(step: Callable[[], str]) -> str:
        """One item's refusal is its finding; the others go on. What concerns all ends the pass."""
        try:
            return step()
        except CallboardError as error:
            if error.code in UNPUBLISHED or error.code == "launch_failed":
                raise
            return error.code

    def _reconcile(self, state: DispatchState, may_start: Callable[[], bool]) -> str:
        dispatch_id = state.assignment.dispatch_id
        if state.state == "reserved":
            return self._resume(state, may_start)
        row = self._site.registry.find(self._site.key, dispatch_id)
        if state.state == "rejected":
            return self._nonlaunch(state)
        if state.run is not None and (row is None or row.run_id != state.run.run_id):
            # The board knows of a run that this registry has no record of: it proves nothing.
            return self._unknown(state, "run_unknown_here")
        if row is None:
            return self._without_row(state)
        if row.state == "prepared":
            return self._prepared(state, row)
        if row.state == "void":
            return self._nonlaunch(state)
        if row.state == "running":
            return self._running(state, row)
        return self._ended(state, row)

    def _resume(self, state: DispatchState, may_start: Callable[[], bool]) -> str:
        dispatch_id = state.assignment.dispatch_id
        if state.open_claims == 0:
            self._release(dispatch_id, Proof("prelaunch", "trusted_publisher"), NOT_LAUNCHED)
            return "released"
        if self._site.publisher.refresh().projection.grants_paused:
            return "grants_paused"
        if not may_start():
            return "waiting_for_slot"
        return self._dispatcher.launch(dispatch_id).status

    def _without_row(self, state: DispatchState) -> str:
        """A marker without a row: pending while its sender lives, else ruled out by a fence."""
        sender_run = _sender(state)
        sender = self._site.registry.dispatcher(sender_run)
        if sender is None:
            return self._unknown(state, "sender_unknown_here")
        if liveness(sender.identity) != "dead":
            return "launch_pending"
        if self._runs_elsewhere(state):
            return self._unknown(state, "run_unknown_here")
        return self._rule_out(state, sender_run)

    def _runs_elsewhere(self, state: DispatchState) -> bool:
        """Whether the group has an open run under another name of this repository: it was moved
        or copied since, and a fence under the present name would not stop that run."""
        dispatch_id = state.assignment.dispatch_id
        return any(run.dispatch_id == dispatch_id for run in self._site.registry.list_open())

    def _prepared(self, state: DispatchState, row: WorkerRun) -> str:
        """Prepared, not running: the supervisor is on its way, or never came.

        While launcher or supervisor live, the run may still begin. Whatever is decided here, the
        registry lets only one side have it.
        """
        age_ms = self._site.clock.now_ms() - (row.prepared_ms or 0)
        held = RunFolder.of(self._site.folders.state, row.run_id).is_held()
        if held and age_ms < LAUNCH_GRACE_MS:
            return "launch_pending"
        return self._rule_out(state, row.sender_run_id)

    def _rule_out(self, state: DispatchState, sender_run: str) -> str:
        answer = self._site.registry.void(
            self._site.key,
            state.assignment.dispatch_id,
            sender_run,
            now_ms=self._site.clock.now_ms(),
        )
        if answer in ("voided", "already_void"):
            return self._nonlaunch(state)
        return "launch_pending" if answer in ("running", "ended") else self._unknown(state, answer)

    def _nonlaunch(self, state: DispatchState) -> str:
        self._release(state.assignment.dispatch_id, Proof("nonlaunch", "host_api"), NOT_LAUNCHED)
        return "released"

    def _running(self, state: DispatchState, row: WorkerRun) -> str:
        supervisor = row.supervisor
        alive = "unknown" if supervisor is None else liveness(supervisor)
        if alive == "alive":
            return "running" if state.state == "bound" else "binding"
        if alive == "unknown":
            return self._unknown(state, "supervisor_unknown_here")
        survivors = stop_orphans(row.run_id, row.worker, ORPHAN_GRACE_S)
        self._site.registry.finish(
            row.run_id,
            conclusion=SUPERVISOR_LOST,
            exit_code=None,
            signal=None,
            survivors=[survivor.document() for survivor in survivors],
            now_ms=self._site.clock.now_ms(),
        )
        ended = self._site.registry.by_run(row.run_id)
        return "supervisor_lost" if ended is None else self._ended(state, ended)

    def _ended(self, state: DispatchState, row: WorkerRun) -> str:
        """The run is over: bind what was never bound, close what is open, release once."""
        dispatch_id = state.assignment.dispatch_id
        # It may have bound itself after `state` was read, and before it was found dead.
        state = self._site.publisher.refresh().projection.dispatches[dispatch_id]
        if state.state != "bound":
            run = run_of(self._site, state, row.run_id)
            self._site.publisher.publish(
                lifecycle.bind(dispatch_id, run, self._site.actor("reconciler"))
            )
        # The registry's table holds one for every run that ended.
        conclusion = str(row.conclusion)
        self._release(
            dispatch_id, Proof("terminal_run", "host_api", conclusion=conclusion), conclusion
        )
        return "released"

    def _unknown(self, state: DispatchState, reason: str) -> str:
        """No evidence from here: say so once, and after the deadline that it stays open."""
        if state.state == "bound":
            return reason
        actor = self._site.actor("reconciler")
        dispatch_id = state.assignment.dispatch_id
        if state.state == "started":
            if self._is_under_way_elsewhere(state):
                return "launch_pending"
            self._site.publisher.publish(lifecycle.doubt(dispatch_id, "uncertain", reason, actor))
            return "launch_uncertain"
        pool = self._site.publisher.refresh().projection.pool(state.assignment.pool)
        waited_ms = self._site.clock.now_ms() - (state.started_at or state.granted_at)
        if state.state == "uncertain" and waited_ms >= pool.reconciliation.deadline_ms:
            self._site.publisher.publish(lifecycle.doubt(dispatch_id, "unresolved", reason, actor))
            return "launch_unresolved"
        return f"launch_{state.state}"

    def _is_under_way_elsewhere(self, state: DispatchState) -> bool:
        """Whether somebody with another registry may only just have begun this launch: another
        user, or on a board that is shared through a remote the same one on another machine."""
        sender = state.sender
        age_ms = self._site.clock.now_ms() - (state.started_at or state.granted_at)
        ours = sender is None or sender.principal == self._site.principal
        return (not ours or self._site.remote is not None) and age_ms < LAUNCH_GRACE_MS

    def _release(self, dispatch_id: str, proof: Proof, reason: str) -> None:
        actor = self._site.actor("reconciler")
        self._site.publisher.publish(lifecycle.release(dispatch_id, proof, reason, actor))


def _sender(state: DispatchState) -> str:
    sender = state.sender
    run_id = None if sender is None else sender.run_id
    return run_id if isinstance(run_id, str) else ""
