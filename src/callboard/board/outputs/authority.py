"""On whose behalf an effect happens: one Claim of one bound run, as the board records it.

Source: specification 1, §7.14. Facts come from the projection and from nowhere else; a staged
message, an environment variable or a sibling's state never grants anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from callboard.board.outputs.control_receipt import ControlReceipt
from callboard.board.projection.entities import ClaimState, WorkState
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import claim_on, dispatch_of
from callboard.board.protocol.operations import Payload, Resource
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError

Phase = Literal["open", "completed", "closed"]


class Desk(Protocol):
    """The board as the controls of one Claim reach it: in its worker's name and no other's.

    Each method raises `CallboardError`; a refused request has changed nothing.
    """

    @property
    def queue_ref(self) -> str:
        """The ref that a request to the board changes."""
        ...

    def rehearse_plan(self, plan: bytes) -> None:
        """Refuse a plan that the board would not take now, after those rehearsed before it."""
        ...

    def submit(self, request_id: str, plan: bytes) -> ControlReceipt:
        """Post a plan, whose nodes inherit the Claim's pool, priority and key."""
        ...

    def dispatch_next(
        self, request_id: str, pool: str, max_claims: int, max_dispatches: int
    ) -> ControlReceipt:
        """Ask for the next fair batch."""
        ...

    def commit_of(self, request_id: str) -> str | None:
        """The commit of a request of this Claim's; None where none stands."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where one Claim's outputs lie; enough to read them back.

    `attempt` counts the Work's Claims from 1; `base` is the commit the run began at; `desk` is how
    its controls reach the board, None where nobody could publish any.
    """

    repository: Repository
    claim_id: str
    work_id: str
    attempt: int
    base: str
    desk: Desk | None = None


@dataclass(frozen=True, slots=True)
class EffectContext:
    """One Claim at one moment of the board.

    `phase`: `open`, its outputs may be prepared; `completed`, its Completion is durable and its
    delivery pending, so its effects may happen; `closed`, neither. `repository_name` is the
    board's `owner/name`, `effect_scope` the profile's, `run_id` that of the bound run.
    """

    place: Place
    handle: str
    payload: Payload
    subject: Resource | None
    repository_name: str
    effect_scope: str
    run_id: str
    result_bytes: int
    phase: Phase
    pool: str

    @property
    def repository(self) -> Repository:
        """Where the effects land."""
        return self.place.repository

    def require(self, phase: Phase) -> None:
        """Refuse with `effects_unauthorized` unless the Claim is in this phase."""
        if self.phase != phase:
            raise CallboardError(
                "effects_unauthorized",
                f"Claim {self.place.claim_id} is {self.phase}, this needs it {phase}",
                "outputs are prepared before the Completion and published after it, once",
                {"claim_id": self.place.claim_id, "phase": self.phase},
            )


def context_of(
    projection: Projection,
    repository: Repository,
    *,
    dispatch_id: str,
    handle: str,
    run_id: str,
    desk: Desk | None = None,
) -> EffectContext:
    """The Claim `handle` of the group `dispatch_id`, for its bound run `run_id`.

    Read it anew after each publication. Raises `dispatch_unknown`, `claim_scope_invalid`,
    `run_unbound` or `run_binding_conflict`.
    """
    dispatch = dispatch_of(projection, dispatch_id)
    if dispatch.run is None:
        raise CallboardError(
            "run_unbound",
            f"no run is bound to dispatch {dispatch_id}",
            "the binding must be durable before a worker has effects",
        )
    if dispatch.run.run_id != run_id:
        raise CallboardError(
            "run_binding_conflict",
            f"run {run_id} is not the one bound to {dispatch_id}",
            "only the bound run has effects",
        )
    members = dispatch.assignment.claims
    member = next((one for one in members if one.handle == handle), None)
    if member is None:
        raise CallboardError(
            "claim_scope_invalid",
            f"dispatch {dispatch_id} has no member {handle!r}",
            "handles: " + ", ".join(one.handle for one in members),
        )
    claim, work = claim_on(projection, member.claim_id, member.work_id)
    return EffectContext(
        place=Place(
            repository=repository,
            claim_id=member.claim_id,
            work_id=member.work_id,
            attempt=work.attempts,
            base=dispatch.profile.ref,
            desk=desk,
        ),
        handle=handle,
        payload=work.work.payload,
        subject=work.work.subject if isinstance(work.work.subject, Resource) else None,
        repository_name=projection.repository or "",
        effect_scope=dispatch.profile.effect_scope,
        run_id=dispatch.run.run_id,
        result_bytes=projection.policy.limits.result_bytes,
        phase=_phase(claim, work),
        pool=dispatch.assignment.pool,
    )


def _phase(claim: ClaimState, work: WorkState) -> Phase:
    if work.claim_id != claim.claim.claim_id:
        return "closed"
    if claim.state == "open" and work.state == "claimed":
        return "open"
    if claim.state == "completed" and work.state == "completed" and work.barrier == "pending":
        return "completed"
    return "closed"
