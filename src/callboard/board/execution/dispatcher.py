"""A process that dispatches: its registered run, and the launch of one granted group.

Source: specification 1, §7.8; wire-v3 §10. Exactly one sender launches a group: the one whose actor
stands in the start marker. Nothing is launched twice or blindly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from callboard import telemetry
from callboard.board.execution.host import Host, Order
from callboard.board.execution.hosts.choice import HostOf, hosts_of
from callboard.board.execution.hosts.local.host import reap
from callboard.board.execution.site import DISPATCH_WORKFLOW, Site
from callboard.board.projection.entities import DispatchState
from callboard.board.protocol.operations import Actor
from callboard.board.protocol.policy import Profile
from callboard.board.publishing import lifecycle
from callboard.board.publishing.intents import Nothing
from callboard.board.publishing.lifecycle import Proof
from callboard.errors import CallboardError
from callboard.processes.identity import current

LaunchStatus = Literal[
    "launched", "uncertain", "refused", "not_sender", "not_reserved", "nothing_open", "run_exists"
]

NOT_LAUNCHED = "not_launched"
"""Why the Claims of a group ended whose run never began."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What became of the attempt to launch a group; `run_id` is set once a run is prepared."""

    dispatch_id: str
    status: LaunchStatus
    run_id: str | None = None


class Dispatcher:
    """One dispatching process. `environment` is what the runs of this machine inherit."""

    def __init__(
        self, site: Site, environment: Mapping[str, str], host_of: HostOf | None = None
    ) -> None:
        self.site = site
        self.host_of = host_of or hosts_of(site, environment)
        self._sent: set[str] = set()

    @cached_property
    def run_id(self) -> str:
        """The run that this process is registered as, from when it first sends."""
        return self.site.registry.register_dispatcher(current(), now_ms=self.site.clock.now_ms())

    @property
    def actor(self) -> Actor:
        """The sender that stands in this process's start markers."""
        return self.site.run_actor("dispatcher", workflow=DISPATCH_WORKFLOW, run_id=self.run_id)

    def owes(self, state: DispatchState) -> bool:
        """Whether this very process is the sender of a start marker and has not sent: the answer
        to its marker was lost. Nobody else could, and nobody else will."""
        if "run_id" not in self.__dict__ or state.sender != self.actor or state.run is not None:
            return False
        # Others may be in doubt about it already; the sender itself knows better.
        in_doubt = state.state in ("started", "uncertain", "unresolved")
        return in_doubt and state.assignment.dispatch_id not in self._sent

    def launch(self, dispatch_id: str) -> Launch:
        """Record the start marker and launch the group's one run, if this process may.

        Raises `worker_unavailable`, `host_unsupported`, `grants_paused` and what publishing raises;
        then the group is as it was, and whoever comes next goes on. Raises `launch_failed` or
        another refusal of the host's; then the group is freed, if that proves that no run will
        ever begin, or its launch is recorded as uncertain.
        """
        state = self.site.publisher.refresh().projection.dispatches[dispatch_id]
        members, pool = state.assignment.claims, state.assignment.pool
        with telemetry.span(
            "work-queue.launch.run",
            dispatch_id=dispatch_id,
            pool=pool,
            claim_refs=[one.claim_id for one in members],
            work_refs=[one.work_id for one in members],
        ) as span:
            try:
                launch = self._launched(dispatch_id, state.profile)
            except CallboardError as error:
                telemetry.measure("launches", pool=pool, result=error.code)
                raise
            telemetry.measure("launches", pool=pool, result=launch.status)
            span.set(result=launch.status, sender_run_id=self.run_id)
            if launch.run_id is not None:
                span.set(run_id=launch.run_id)
            return launch

    def _launched(self, dispatch_id: str, profile: Profile) -> Launch:
        """The start marker, and the order where this process is its sender."""
        host = self.host_of(profile)
        host.resolve(profile)
        actor = self.actor
        answer = self.site.publisher.publish(
            lifecycle.start(dispatch_id, actor, self.site.principal)
        )
        if isinstance(answer, Nothing):
            status: LaunchStatus = (
                "nothing_open" if answer.reason == "nothing_open" else "not_reserved"
            )
            return Launch(dispatch_id, status)
        state = self.site.publisher.known().projection.dispatches[dispatch_id]
        # The marker names this very process, so what it remembers of sending is all there is.
        if answer.request.actor != actor or dispatch_id in self._sent:
            return Launch(dispatch_id, "not_sender")
        if state.released or state.run is not None:
            return Launch(dispatch_id, "not_reserved")
        return self._send(host, Order.of(state))

    def _send(self, host: Host, order: Order) -> Launch:
        """Send the order, once, whatever comes of it: nothing may fail between note and call."""
        dispatch_id = order.dispatch_id
        self._sent.add(dispatch_id)
        try:
            answer = host.launch(order)
        except CallboardError as error:
            # The host was not reached, or its answer was lost: nobody can tell which.
            self._doubt(dispatch_id, error.code)
            return Launch(dispatch_id, "uncertain")
        if answer.status == "refused":
            self._give_up(dispatch_id)
        if answer.status == "uncertain":
            reason = "launch_unanswered" if answer.error is None else answer.error.code
            self._doubt(dispatch_id, reason)
        if answer.error is not None:
            raise answer.error
        if answer.status == "uncertain":
            return Launch(dispatch_id, "uncertain", answer.run_id)
        if answer.status == "taken":
            return Launch(dispatch_id, "run_exists")
        if answer.status == "refused":
            return Launch(dispatch_id, "refused")
        return Launch(dispatch_id, "launched", answer.run_id)

    def _doubt(self, dispatch_id: str, reason: str) -> None:
        actor = self.site.actor("reconciler")
        self.site.publisher.publish(lifecycle.doubt(dispatch_id, "uncertain", reason, actor))

    def _give_up(self, dispatch_id: str) -> None:
        """Free a group whose launch the host refused: nobody else may hear of that proof."""
        proof = Proof("nonlaunch", "host_api")
        actor = self.site.actor("reconciler")
        self.site.publisher.publish(lifecycle.release(dispatch_id, proof, NOT_LAUNCHED, actor))

    @staticmethod
    def reap() -> None:
        """Collect what this process started on this machine and has ended."""
        reap()
