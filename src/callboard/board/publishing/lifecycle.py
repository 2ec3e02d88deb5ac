"""The records between a grant and its settlement, as intents made anew for each tip.

Source: specification 1, §§7.8, 7.14, 7.15; wire-v3 §§5, 6, 10. Each names its fact in its request
id, so that whoever comes second finds what stands; none of them guesses about a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET, UnsetType

from callboard.board.ledger.finish import ATTEMPTS_EXHAUSTED
from callboard.board.projection.entities import DispatchState, WorkState
from callboard.board.projection.exhaustion import spent_works
from callboard.board.projection.reserve import lifecycle_limit
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import claim_on, dispatch_of, work_of
from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.board.publishing.intents import Finish, Nothing, Operations, named_by_its_id

EvidenceKind = Literal["prelaunch", "nonlaunch", "terminal_run", "delivery", "reconciliation"]
EvidenceSource = Literal[
    "trusted_publisher", "github_api", "trusted_activation", "verified_receipts", "host_api"
]


@dataclass(frozen=True, slots=True)
class Proof:
    """What the caller knows; identity and times are filled in from the dispatch it is about."""

    kind: EvidenceKind
    source: EvidenceSource
    conclusion: str | UnsetType = UNSET
    receipt: str | UnsetType = UNSET
    attempts: int | UnsetType = UNSET
    effects: Literal["none", "partial", "unknown"] | UnsetType = UNSET

    def evidence(self, projection: Projection, state: DispatchState, at: int) -> ops.Evidence:
        """The record of this proof about one dispatch, checked at `at`."""
        run = state.run if self.kind in ("terminal_run", "delivery", "reconciliation") else None
        ended = self.kind == "terminal_run" or self.conclusion is not UNSET
        return ops.Evidence(
            kind=self.kind,
            source=self.source,
            repository=str(projection.repository),
            workflow=state.profile.workflow,
            ref=state.profile.ref,
            principal=state.principal,
            checked_at=at,
            run_id=UNSET if run is None else run.run_id,
            run_attempt=UNSET if run is None else 1,
            status="completed" if ended and run is not None else UNSET,
            conclusion=self.conclusion,
            receipt=self.receipt,
            attempts=self.attempts,
            effects=self.effects,
        )


def start(dispatch_id: str, sender: ops.Actor, credential_principal: str) -> Operations:
    """The one start marker. Whoever's actor stands in the accepted request is the sender;
    nobody else may launch. `Nothing("not_reserved")` where it is too late, `"nothing_open"`
    where every Claim has ended already, so that a release is due instead."""

    def make(projection: Projection, _at: int) -> list[ops.Operation] | Nothing:
        state = dispatch_of(projection, dispatch_id)
        if state.released or state.state != "reserved":
            return Nothing("not_reserved", {"state": state.state, "released": state.released})
        if state.open_claims == 0:
            return Nothing("nothing_open", {"state": state.state})
        return [
            ops.Dispatch(
                dispatch_id=dispatch_id,
                state="started",
                sender=sender,
                credential_principal=credential_principal,
            )
        ]

    return Operations("dispatch", f"start_{dispatch_id}", sender, make, named_by_its_id)


def bind(dispatch_id: str, run: ops.Run, actor: ops.Actor) -> Operations:
    """Bind the actual run. An identical binding that stands is `Nothing("already_bound")`, whoever
    recorded it; another one is refused by the board as `run_binding_conflict`."""

    def make(projection: Projection, _at: int) -> list[ops.Operation] | Nothing:
        state = dispatch_of(projection, dispatch_id)
        if state.run == run:
            return Nothing("already_bound", {"run_id": run.run_id})
        return [ops.Dispatch(dispatch_id=dispatch_id, state="bound", run=run)]

    # The run itself and a reconciler may both come with it; each request is of one role.
    verb = "bind" if actor.role == "worker" else "found"
    return Operations(
        "dispatch", f"{verb}_{dispatch_id}_{run.run_id}", actor, make, named_by_its_id
    )


def doubt(
    dispatch_id: str,
    state: Literal["uncertain", "unresolved"],
    reason: str,
    actor: ops.Actor,
    proof: Proof | None = None,
) -> Operations:
    """Record that a launch is in doubt, once per reason; capacity stays reserved.

    A group takes a bounded number of launch records. `Nothing("no_room")` where this one would
    leave none for its binding, or for telling that the doubt could not be resolved.
    """
    kept = 1 if state == "unresolved" else 2

    def make(projection: Projection, at: int) -> list[ops.Operation] | Nothing:
        found = dispatch_of(projection, dispatch_id)
        if found.released or found.state not in ("started", "uncertain", "unresolved"):
            return Nothing("no_doubt", {"state": found.state, "released": found.released})
        if (found.state, found.reason) == (state, reason):
            return Nothing("already_recorded", {"state": found.state})
        limit = lifecycle_limit(projection.pool(found.assignment.pool))
        if found.lifecycle_writes >= limit - kept:
            return Nothing("no_room", {"state": found.state, "limit": limit})
        evidence = UNSET if proof is None else proof.evidence(projection, found, at)
        return [
            ops.Dispatch(dispatch_id=dispatch_id, state=state, reason=reason, evidence=evidence)
        ]

    return Operations("dispatch", f"{state}_{dispatch_id}_{reason}", actor, make, named_by_its_id)


def release(dispatch_id: str, proof: Proof, reason: str, actor: ops.Actor) -> Operations:
    """Free a group on proof: its open Claims are cancelled with `reason` in the same commit,
    exhausted Work with them. `Nothing("already_released")` where that has happened."""

    def make(projection: Projection, at: int) -> list[ops.Operation] | Nothing:
        state = dispatch_of(projection, dispatch_id)
        if state.released:
            return Nothing("already_released")
        return _closing(projection, state, proof, reason, at)

    return Operations("release", f"release_{dispatch_id}", actor, make, named_by_its_id)


def hand_back(dispatch_id: str, reason: str, actor: ops.Actor) -> Operations:
    """Free a group that can no longer start: it has no start marker, and grants are paused.

    `Nothing("not_reserved")` where a marker stands or it is released, `"grants_open"` where it may
    start after all, `"attempts_spent"` where that would end some of its Work for good.
    """
    proof = Proof("prelaunch", "trusted_publisher")

    def make(projection: Projection, at: int) -> list[ops.Operation] | Nothing:
        state = dispatch_of(projection, dispatch_id)
        if state.released or state.state != "reserved":
            return Nothing("not_reserved", {"state": state.state, "released": state.released})
        if not projection.grants_paused:
            return Nothing("grants_open")
        if spent := spent_works(projection, state):
            return Nothing("attempts_spent", {"works": spent})
        return _closing(projection, state, proof, reason, at)

    return Operations("release", f"release_{dispatch_id}", actor, make, named_by_its_id)


def _closing(
    projection: Projection, state: DispatchState, proof: Proof, reason: str, at: int
) -> list[ops.Operation]:
    """The end of a group's open Claims, of Work that is exhausted by it, and its Release."""
    claims: list[ops.Operation] = []
    works: list[ops.Operation] = []
    for member in state.assignment.claims:
        claim, work = claim_on(projection, member.claim_id, member.work_id)
        if claim.state != "open":
            continue
        retry = projection.pool(work.work.pool).retry
        claims.append(
            ops.ClaimCancellation(
                work_id=member.work_id,
                claim_id=member.claim_id,
                reason=reason,
                retry_not_before=at + retry.backoff_ms,
            )
        )
        if work.attempts >= retry.max_attempts:
            works.append(ops.WorkCancellation(work_id=member.work_id, reason=ATTEMPTS_EXHAUSTED))
    evidence = proof.evidence(projection, state, at)
    return [
        *claims,
        *works,
        ops.Release(dispatch_id=state.assignment.dispatch_id, evidence=evidence),
    ]


def finish(
    dispatch_id: str, handle: str, outcome: Literal["completed", "cancelled"], actor: ops.Actor
) -> Finish:
    """End one Claim as its bound worker run; refused `claim_closed` where it has ended."""
    return Finish(
        request_id=f"finish_{dispatch_id}_{handle}",
        actor=actor,
        parameters=wire.FinishParameters(
            dispatch_id=dispatch_id, claim_handle=handle, outcome=outcome
        ),
    )


def deliver(work_id: str, descriptor: ops.Payload, proof: Proof, actor: ops.Actor) -> Operations:
    """The verified Result of a completed Work. `Nothing("barrier_closed")` where it is decided."""

    def make(projection: Projection, at: int) -> list[ops.Operation] | Nothing:
        work, state = _pending(projection, work_id)
        if state is None:
            return Nothing("barrier_closed", {"barrier": work.barrier})
        return [
            ops.Result(
                work_id=work_id,
                claim_id=str(work.claim_id),
                completion_id=str(work.completion_id),
                descriptor=descriptor,
                evidence=proof.evidence(projection, state, at),
            )
        ]

    return Operations("result", f"result_{work_id}", actor, make, named_by_its_id)


def fail_delivery(work_id: str, reason: str, proof: Proof, actor: ops.Actor) -> Operations:
    """Give a delivery up; the board checks attempts, deadline and disposition."""

    def make(projection: Projection, at: int) -> list[ops.Operation] | Nothing:
        work, state = _pending(projection, work_id)
        if state is None:
            return Nothing("barrier_closed", {"barrier": work.barrier})
        effects = proof.effects if isinstance(proof.effects, str) else "unknown"
        return [
            ops.DeliveryFailure(
                work_id=work_id,
                claim_id=str(work.claim_id),
                completion_id=str(work.completion_id),
                reason=reason,
                disposition=effects,
                evidence=proof.evidence(projection, state, at),
            )
        ]

    return Operations(
        "delivery_failure", f"delivery_failure_{work_id}", actor, make, named_by_its_id
    )


def _pending(projection: Projection, work_id: str) -> tuple[WorkState, DispatchState | None]:
    work = work_of(projection, work_id)
    if work.barrier != "pending" or work.claim_id is None:
        return work, None
    claim = projection.claims[work.claim_id]
    return work, dispatch_of(projection, claim.claim.dispatch_id)
