"""Reconciliation: what became of launches and deliveries, from evidence, one pass at a time.

Source: specification 1, §§7.8, 7.15, 7.18 with their recovery tables; wire-v3 §10. It never
launches a group whose marker stands, never frees a slot on silence, and records doubt as doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from callboard import telemetry
from callboard.board.execution.dispatcher import NOT_LAUNCHED, Dispatcher
from callboard.board.execution.host import RUN_UNKNOWN, Host, Order, RunFacts, Sighting
from callboard.board.execution.patience import Patience
from callboard.board.execution.settle import Settler, run_of
from callboard.board.projection.entities import BINDING_CONFLICT, RERUN, DispatchState
from callboard.board.protocol.policy import Reconciliation
from callboard.board.publishing import lifecycle
from callboard.board.publishing.lifecycle import Proof
from callboard.board.storage.refusals import UNWRITABLE
from callboard.board.storage.remote_refusals import UNPUBLISHED
from callboard.errors import CallboardError

# How long a launch that somebody with other evidence may only just have begun is left alone, where
# the policy's deadline is not shorter.
ELSEWHERE_GRACE_MS = 60_000
NOT_RULED_OUT = "not_ruled_out"
PENDING = "launch_pending"
NO_LOOK = frozenset({"registry_busy"})
"""Codes of a host that was too busy to look: that tells nothing of the launch, not even doubt."""

OUT_OF_REACH = frozenset(
    {
        "grants_paused", "host_unsupported", "launch_unresolved", "lifecycle_limit",
        "process_unknown", RUN_UNKNOWN, "supervisor_unknown_here", "waiting_for_slot",
        "worker_unavailable", BINDING_CONFLICT, RERUN,
    }
)  # fmt: skip
"""Findings about groups that no further pass of this process will change by itself."""
_CONCERNS_ALL = (
    UNPUBLISHED
    | UNWRITABLE
    | {"launch_failed", "registry_invalid", "registry_newer", "registry_unusable"}
)
"""Refusals that are about this machine or the board as a whole: the next item would meet them too,
and a person has to hear of them with what they say to do."""


@dataclass(slots=True)
class Findings:
    """What one pass did and met: dispatch or Work id -> a short word for it; `troubles` says of a
    Work what stood against its delivery."""

    dispatches: dict[str, str] = field(default_factory=dict)
    deliveries: dict[str, str] = field(default_factory=dict)
    troubles: dict[str, CallboardError] = field(default_factory=dict)


class Reconciler:
    """Reconciles one site's board. `dispatcher` resumes groups that were never started."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._site = dispatcher.site
        self._settler = Settler(self._site, dispatcher.host_of)
        self._patience = Patience()
        self._told: dict[str, str] = {}
        self._delivered: dict[str, str] = {}

    def run_pass(self, may_start: Callable[[], bool] = lambda: True) -> Findings:
        """Look at every open group and pending delivery once.

        `may_start` is asked before a reserved group is started; a caller that is out of worker
        slots leaves such groups for later.
        """
        with telemetry.span("work-queue.reconcile.run", quiet=True) as span:
            findings = self._pass(may_start)
            if telemetry.is_on():
                self._tell(span, findings)
            return findings

    def _tell(self, span: telemetry.Span, findings: Findings) -> None:
        """Tell of what this pass found otherwise than the one before, and what is open."""
        found = findings.dispatches | findings.deliveries
        new = {one: word for one, word in found.items() if self._told.get(one) != word}
        self._told = found
        for word in new.values():
            telemetry.measure("reconcile.findings", result=word)
        projection = self._site.publisher.known().projection
        pools = [projection.dispatches[one].assignment.pool for one in projection.open_dispatches]
        for pool in projection.policy.pools if projection.tip is not None else ():
            telemetry.measure("dispatches.open", pools.count(pool), pool=pool)
        if new:
            span.keep()
            span.set(
                dispatch_ids=sorted(new.keys() & findings.dispatches.keys()),
                work_refs=sorted(new.keys() & findings.deliveries.keys()),
                findings=sorted(set(new.values())),
            )

    def _pass(self, may_start: Callable[[], bool]) -> Findings:
        """Raises a failure of this machine to start runs last: what is under way is looked after
        all the same, and no other group loses an attempt by it."""
        findings, failure = Findings(), None
        projection = self._site.publisher.refresh().projection
        for dispatch_id in list(projection.open_dispatches):
            state = self._site.publisher.refresh().projection.dispatches[dispatch_id]
            if not state.released:
                step = partial(self._reconcile, state, may_start if failure is None else _never)
                try:
                    findings.dispatches[dispatch_id] = self._guarded(step)
                except CallboardError as error:
                    if error.code != "launch_failed":
                        raise
                    failure = error
        findings.deliveries.update(self._delivered)
        self._delivered.clear()
        projection = self._site.publisher.refresh().projection
        for work_id in list(projection.pending_deliveries):
            findings.deliveries[work_id] = self._guarded(partial(self._settler.settle, work_id))
        for work_id in findings.deliveries:
            trouble = self._settler.trouble(work_id)
            if trouble is not None:
                findings.troubles[work_id] = trouble
        if failure is not None:
            raise failure
        return findings

    @staticmethod
    def _guarded(step: Callable[[], str]) -> str:
        """One item's refusal is its finding; the others go on. What concerns all ends the pass."""
        try:
            return step()
        except CallboardError as error:
            if error.code in _CONCERNS_ALL:
                raise
            return error.code

    def _reconcile(self, state: DispatchState, may_start: Callable[[], bool]) -> str:
        if state.state == "reserved":
            return self._resume(state, may_start)
        if state.state == "rejected":
            return self._nonlaunch(state)
        if self._dispatcher.owes(state):
            return self._dispatcher.launch(state.assignment.dispatch_id).status
        host, order = self._dispatcher.host_of(state.profile), Order.of(state)
        if state.run is not None:
            return self._bound(host, order, host.inspect(order, state.run.run_id))
        bounds = self._bounds(state)
        if not self._patience.is_due(order.dispatch_id, bounds, self._site.clock.now_ms()):
            return f"launch_{state.state}"
        try:
            sighting = host.find(order)
        except CallboardError as error:
            return self._unanswered(state, error)
        return self._unbound(host, order, state, sighting)

    def _bounds(self, state: DispatchState) -> Reconciliation:
        projection = self._site.publisher.refresh().projection
        return projection.pool(state.assignment.pool).reconciliation

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

    # --- launches without a binding ------------------------------------------------------------

    def _unbound(self, host: Host, order: Order, state: DispatchState, sighting: Sighting) -> str:
        """Bind the one run that was found, or tell what its absence means."""
        if sighting.runs:
            run, contradiction = _judge(order, sighting)
            if run is None:
                return self._unknown(state, contradiction)
            return self._bind(host, order, state, run)
        if sighting.outlook == "ruled_out":
            return self._nonlaunch(state)
        if sighting.outlook == "complete":
            return self._rule_out(host, order, state)
        if sighting.outlook == "pending":
            return self._pending(state)
        return self._unknown(state, sighting.why or "evidence_unavailable")

    def _rule_out(self, host: Host, order: Order, state: DispatchState) -> str:
        try:
            answer = host.rule_out(order)
        except CallboardError as error:
            return self._unanswered(state, error)
        if answer == "ruled_out":
            return self._nonlaunch(state)
        return self._pending(state) if answer == "pending" else self._unknown(state, NOT_RULED_OUT)

    def _unanswered(self, state: DispatchState, error: CallboardError) -> str:
        """A host that gave no answer: doubt, unless it only had no time for the question."""
        if error.code in UNPUBLISHED or error.code in NO_LOOK:
            raise error
        return self._unknown(state, error.code)

    def _pending(self, state: DispatchState) -> str:
        """A run that is on its way, unless it has been so for longer than anybody should wait."""
        waited_ms = self._site.clock.now_ms() - (state.started_at or state.granted_at)
        if waited_ms < self._bounds(state).deadline_ms:
            return PENDING
        return self._unknown(state, PENDING)

    def _nonlaunch(self, state: DispatchState) -> str:
        self._release(state.assignment.dispatch_id, Proof("nonlaunch", "host_api"), NOT_LAUNCHED)
        return "released"

    def _bind(self, host: Host, order: Order, state: DispatchState, facts: RunFacts) -> str:
        """Make the host's word for the one run durable, as the run itself may be doing now."""
        run = run_of(self._site, state, facts.run_id)
        self._site.publisher.publish(
            lifecycle.bind(order.dispatch_id, run, self._site.actor("reconciler"))
        )
        self._patience.forget(order.dispatch_id)
        return self._bound(host, order, facts)

    def _unknown(self, state: DispatchState, reason: str) -> str:
        """No evidence from here: say so once, and when patience ends that it stays open."""
        dispatch_id = state.assignment.dispatch_id
        now_ms, bounds = self._site.clock.now_ms(), self._bounds(state)
        if state.state == "started" and self._is_under_way_elsewhere(state):
            return PENDING
        looks = self._patience.count(dispatch_id, now_ms)
        if state.state == "unresolved":
            self._patience.stop(dispatch_id)
            return "launch_unresolved"
        waited_ms = now_ms - (state.started_at or state.granted_at)
        exhausted = looks >= bounds.max_attempts or waited_ms >= bounds.deadline_ms
        # Whatever is told for the first time is in doubt before it is given up.
        doubt: Literal["uncertain", "unresolved"] = (
            "unresolved" if exhausted and state.state == "uncertain" else "uncertain"
        )
        self._site.publisher.publish(
            lifecycle.doubt(
                dispatch_id,
                doubt,
                reason,
                self._site.actor("reconciler"),
                Proof("reconciliation", "host_api", attempts=looks),
            )
        )
        return f"launch_{doubt}"

    def _is_under_way_elsewhere(self, state: DispatchState) -> bool:
        """Whether somebody with another registry may only just have begun this launch: another
        user, or on a board that is shared through a remote the same one on another machine."""
        sender = state.sender
        age_ms = self._site.clock.now_ms() - (state.started_at or state.granted_at)
        ours = sender is None or sender.principal == self._site.principal
        grace_ms = min(ELSEWHERE_GRACE_MS, self._bounds(state).deadline_ms)
        return (not ours or self._site.remote is not None) and age_ms < grace_ms

    # --- runs ----------------------------------------------------------------------------------

    def _bound(self, host: Host, order: Order, facts: RunFacts) -> str:
        """The bound run as it stands: leave it, end what is left of it, or settle its end."""
        if facts.standing == "abandoned":
            if host.cancel(order, facts.run_id) != "ended":
                return "run_abandoned"
            facts = host.inspect(order, facts.run_id)
        if facts.standing == "ended":
            return self._ended(host, order, facts)
        if facts.standing in ("queued", "running"):
            return "running"
        return facts.why or RUN_UNKNOWN

    def _ended(self, host: Host, order: Order, facts: RunFacts) -> str:
        """Close what is open, and free the place, once: when nothing of the launch is left."""
        if not _is_ordered(order, facts):
            return BINDING_CONFLICT
        sighting = host.find(order)
        if facts not in sighting.runs:
            # Older than what the run itself was seen to be: it tells nothing of the others now.
            return PENDING
        rest = _rest(sighting, besides=facts.run_id)
        if rest is not None:
            return rest
        self._deliver_first(order.dispatch_id)
        conclusion = facts.conclusion or "unknown"
        proof = Proof("terminal_run", "host_api", conclusion=conclusion)
        self._release(order.dispatch_id, proof, conclusion)
        return "released"

    def _deliver_first(self, dispatch_id: str) -> None:
        """Make the requests that completed members had prepared before the release: they go out in
        the run's name, which speaks for nobody any more once it is released. Whatever else is to be
        delivered keeps no place taken."""
        projection = self._site.publisher.refresh().projection
        for member in projection.dispatches[dispatch_id].assignment.claims:
            work_id = member.work_id
            if work_id in projection.pending_deliveries and self._settler.has_requests(work_id):
                self._delivered[work_id] = self._guarded(partial(self._settler.settle, work_id))

    def _release(self, dispatch_id: str, proof: Proof, reason: str) -> None:
        actor = self._site.actor("reconciler")
        self._site.publisher.publish(lifecycle.release(dispatch_id, proof, reason, actor))


def _never() -> bool:
    return False


def _is_ordered(order: Order, facts: RunFacts) -> bool:
    """Whether a run is what was ordered, in all that a host knows of its identity."""
    profile = order.profile
    found = (facts.run_attempt, facts.workflow, facts.ref, facts.principal, facts.event)
    return found == (1, profile.workflow, profile.ref, order.principal, order.event)


def _judge(order: Order, sighting: Sighting) -> tuple[RunFacts | None, str]:
    """The run to bind; None where the runs that were found contradict each other or the order.

    Of several that all have ended without ever being bound, so that none of them can act any more,
    the first one that was ordered stands for them.
    """
    ordered = [one for one in sighting.runs if _is_ordered(order, one)]
    if sighting.outlook != "ruled_out" and ordered and len(sighting.runs) == 1:
        return ordered[0], ""
    if ordered and _rest(sighting) is None:
        return min(ordered, key=lambda one: one.run_id), ""
    others = [one for one in sighting.runs if one not in ordered]
    is_rerun = others and len(ordered) < 2 and all(one.run_attempt != 1 for one in others)
    return None, RERUN if is_rerun and sighting.outlook != "ruled_out" else BINDING_CONFLICT


def _rest(sighting: Sighting, besides: str | None = None) -> str | None:
    """What of a launch may still live or come beside the ordered run of that id; None where every
    run of it has ended."""
    others = (one for one in sighting.runs if (one.run_id, one.run_attempt) != (besides, 1))
    living = [one for one in others if one.standing != "ended"]
    if living:
        return BINDING_CONFLICT if any(one.run_attempt == 1 for one in living) else RERUN
    if sighting.outlook == "complete":
        return None
    if sighting.outlook == "ruled_out":
        return BINDING_CONFLICT
    return PENDING if sighting.outlook == "pending" else sighting.why or "evidence_unavailable"
