"""Settling completed Work: outputs are published once, verified from Git alone, then a Result.

Source: specification 1, §§7.14, 7.15; wire-v3 §§9, 10. What was prepared before the Completion is
all it goes by, so that a pass cut short is finished by whoever comes next, and never begun anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from callboard.board.execution.carriage import Carriage
from callboard.board.execution.desk import ControlDesk
from callboard.board.execution.host import Order, event_of
from callboard.board.execution.hosts.choice import HostOf, hosts_of
from callboard.board.execution.patience import Patience
from callboard.board.execution.remembering import memory_of
from callboard.board.execution.site import Site
from callboard.board.outputs.authority import Place, context_of
from callboard.board.outputs.bounds import Unmet
from callboard.board.outputs.delivery import Delivery, verify_delivery
from callboard.board.outputs.descriptor import ControlEntry
from callboard.board.outputs.effects import apply_claim
from callboard.board.outputs.prepared import read_prepared
from callboard.board.projection.entities import DispatchState, WorkState
from callboard.board.protocol import operations as ops
from callboard.board.protocol.policy import Reconciliation
from callboard.board.protocol.scalars import ReasonCode
from callboard.board.publishing import lifecycle
from callboard.board.publishing.intents import Nothing
from callboard.board.publishing.lifecycle import Proof
from callboard.errors import CallboardError

GIT_READBACK = "git-readback"
# What a remote says of outputs, as a verdict; anything else is that it could not be asked.
_NOT_TAKEN = frozenset({"push_refused", "remote_ref_conflict"})


def run_of(site: Site, state: DispatchState, run_id: str) -> ops.Run:
    """The record of this host's run for a group."""
    return ops.Run(
        run_id=run_id,
        run_attempt=1,
        repository=site.name,
        workflow=state.profile.workflow,
        ref=state.profile.ref,
        principal=state.principal,
        event=event_of(state.profile),
    )


class Settler:
    """Decides the delivery barriers of one site's board; counts its own attempts."""

    def __init__(self, site: Site, host_of: HostOf | None = None) -> None:
        self._site = site
        self._host_of = host_of or hosts_of(site)
        self._carriage = Carriage(site)
        self._patience = Patience(_pause_ms)
        self._troubles: dict[str, CallboardError] = {}

    def settle(self, work_id: str) -> str:
        """One attempt at one pending delivery: `verified`, `failed`, `pending` or `decided`.

        A delivery that cannot be verified is tried again later, each time after a longer pause,
        and given up within the policy's bounds once its run is known to have ended.
        """
        projection = self._site.publisher.refresh().projection
        work = projection.works[work_id]
        if work.barrier != "pending":
            self._troubles.pop(work_id, None)
            return "decided"
        now_ms = self._site.clock.now_ms()
        bounds = projection.pool(work.work.pool).reconciliation
        if not self._patience.is_due(work_id, bounds, now_ms):
            return "pending"
        claim = projection.claims[str(work.claim_id)]
        dispatch = projection.dispatches[claim.claim.dispatch_id]
        delivery = self._deliver(work, dispatch, claim.claim.handle)
        if delivery.verified:
            self._troubles.pop(work_id, None)
            return self._record_result(work_id, delivery)
        attempts = self._patience.count(work_id, now_ms)
        waited_ms = now_ms - (work.completed_at or now_ms)
        exhausted = waited_ms >= bounds.deadline_ms
        if not self._is_elsewhere(dispatch):
            exhausted = exhausted or attempts >= bounds.max_attempts
        # What is released and had a run was released on proof of its end; a checkpoint forgets only
        # how it ended.
        if dispatch.released and dispatch.run is not None and exhausted:
            return self._record_failure(work_id, delivery, dispatch.conclusion, attempts)
        return "pending"

    def trouble(self, work_id: str) -> CallboardError | None:
        """What stood against a delivery when this settler last tried it: the first refusal of an
        output, else what was not read back. None where it was verified or never tried."""
        return self._troubles.get(work_id)

    def has_requests(self, work_id: str) -> bool:
        """Whether completed Work has prepared requests to the board, as far as that can be read."""
        projection = self._site.publisher.refresh().projection
        claim_id = projection.works[work_id].claim_id
        try:
            prepared = read_prepared(self._site.repository, str(claim_id))
        except CallboardError:
            # Whoever settles it meets the same, and says so.
            return False
        return prepared is not None and any(
            isinstance(entry, ControlEntry) for entry in prepared.outputs
        )

    def _is_elsewhere(self, dispatch: DispatchState) -> bool:
        """Whether the run was another clone's, which may deliver at any moment.

        Then only time tells that it does not, never how often it was looked for from here.
        """
        if self._site.remote is None:
            return False
        return not self._host_of(dispatch.profile).find(Order.of(dispatch)).runs

    def _deliver(self, work: WorkState, dispatch: DispatchState, handle: str) -> Delivery:
        """Finish what was prepared, if anything is left of it, then read everything back.

        A board on a remote has it there, too, before anybody hears of it.
        """
        if self._is_elsewhere(dispatch):
            self._carriage.bring_outputs(str(work.claim_id))
        delivery = self._delivery(work, dispatch, handle)
        if delivery.verified:
            try:
                self._carriage.send_outputs(str(work.claim_id))
            except CallboardError as error:
                if error.code not in _NOT_TAKEN:
                    raise
                self._troubles[str(work.work.work_id)] = error
                missing = (Unmet(error.code, error.message),)
                return Delivery(False, delivery.descriptor, missing)
        return delivery

    def _delivery(self, work: WorkState, dispatch: DispatchState, handle: str) -> Delivery:
        run = dispatch.run
        desk = None
        memory = memory_of(self._site, dispatch, work.work.payload)
        refused: CallboardError | None = None
        if run is not None:
            dispatch_id = dispatch.assignment.dispatch_id
            desk = ControlDesk(self._site, dispatch_id, handle, run.run_id)
            context = context_of(
                self._site.publisher.refresh().projection,
                self._site.repository,
                dispatch_id=dispatch_id,
                handle=handle,
                run_id=run.run_id,
                desk=desk,
                memory=memory,
            )
            try:
                apply_claim(context)
            except CallboardError as error:
                if error.code not in ("delivery_unprepared", "effects_incomplete"):
                    raise
                refused = error
        place = Place(
            self._site.repository,
            str(work.claim_id),
            work.work.work_id,
            work.attempts,
            dispatch.profile.ref,
            desk,
            memory,
        )
        delivery = verify_delivery(place, work.work.payload)
        if not delivery.verified:
            self._troubles[work.work.work_id] = _cause(refused, delivery)
        return delivery

    def _record_result(self, work_id: str, delivery: Delivery) -> str:
        proof = Proof("delivery", "verified_receipts", receipt=GIT_READBACK)
        answer = self._site.publisher.publish(
            lifecycle.deliver(work_id, delivery.descriptor, proof, self._site.actor("reconciler"))
        )
        return "decided" if isinstance(answer, Nothing) else "verified"

    def _record_failure(
        self, work_id: str, delivery: Delivery, conclusion: str | None, attempts: int
    ) -> str:
        proof = Proof(
            "terminal_run",
            "host_api",
            conclusion=UNSET if conclusion is None else conclusion,
            attempts=attempts,
            effects="partial" if delivery.disposition == "partial" else "unknown",
        )
        reason = reason_of(self._troubles[work_id].code)
        answer = self._site.publisher.publish(
            lifecycle.fail_delivery(work_id, reason, proof, self._site.actor("reconciler"))
        )
        return "decided" if isinstance(answer, Nothing) else "failed"


def _cause(refused: CallboardError | None, delivery: Delivery) -> CallboardError:
    """What is behind an unverified delivery. What an output was refused with says more than that it
    is not there, and the first refusal more than those that may have come of it."""
    failed: Any = None if refused is None else refused.details.get("failed")
    if isinstance(failed, list) and failed:
        first: Mapping[str, Any] = failed[0]
        others = {"others": [one["code"] for one in failed[1:]]} if failed[1:] else {}
        details = {**first["details"], **others}
        return CallboardError(first["code"], first["message"], first["hint"], details)
    lacking = delivery.missing[0]
    return CallboardError(lacking.code, lacking.message)


def reason_of(code: str) -> str:
    """A refusal's code as the board takes it; an own handler may give any."""
    try:
        return msgspec.convert(code, ReasonCode)
    except msgspec.ValidationError:
        return "output_unverified"


def _pause_ms(bounds: Reconciliation, attempts: int) -> int:
    """How long to wait after that many attempts: twice as long each time, within the bounds.

    Git is at hand, unlike the host of a launch in doubt, so that the attempts need not fill the
    deadline.
    """
    return min(bounds.deadline_ms // bounds.max_attempts, 250 << attempts)
