"""The things a board's state is made of, each an immutable value replaced as a whole.

Source: specification 1, §§7.5, 7.6, 7.8, 7.15; wire-v3 §§6, 8. No behaviour beyond small
questions about one value.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from callboard.board.projection.routes import Lane
from callboard.board.protocol.commit import Assignment, DispatchNextParameters
from callboard.board.protocol.operations import (
    Actor,
    Claim,
    Gate,
    Payload,
    Run,
    Work,
)
from callboard.board.protocol.policy import Profile

Ownership = Literal["available", "claimed", "completed", "cancelled"]
Barrier = Literal["none", "pending", "verified", "failed"]
Effects = Literal["none", "partial", "unknown"]
ClaimPhase = Literal["open", "completed", "cancelled"]
DispatchPhase = Literal["reserved", "started", "bound", "rejected", "uncertain", "unresolved"]

BINDING_CONFLICT = "run_binding_conflict"
RERUN = "rerun_without_authority"
CONFLICTS = frozenset({BINDING_CONFLICT, RERUN})
"""Reasons of a doubt in which runs were found, so that another look by itself changes nothing."""


class WorkState(Struct, frozen=True, kw_only=True, gc=False):
    """One admitted Work: its record and what became of it.

    `place` orders Work by first committed position; `lane` says where it may run, as frozen at
    its admission; `priority` is the class it competes in, which an operator may have changed;
    `blocked` counts the Work predecessors without a verified Result; `completed_at` is the
    Completion commit's time in Unix ms.
    """

    work: Work
    place: int
    lane: Lane
    priority: int
    payload_bytes: int
    gates: tuple[Gate, ...]
    state: Ownership = "available"
    barrier: Barrier = "none"
    attempts: int = 0
    retry_not_before: int = 0
    blocked: int = 0
    claim_id: str | None = None
    completion_id: str | None = None
    completed_at: int | None = None
    result: Payload | None = None
    result_commit_id: str | None = None
    disposition: Effects | None = None
    failure_reason: str | None = None
    failure_commit_id: str | None = None
    cancellation_reason: str | None = None
    cancellation_commit_id: str | None = None

    @property
    def is_settled(self) -> bool:
        """Cancelled, or completed with its delivery decided."""
        return self.state == "cancelled" or (
            self.state == "completed" and self.barrier != "pending"
        )

    @property
    def is_ready(self) -> bool:
        """Whether only time, gates and capacity may still stand before a grant."""
        return self.state == "available" and self.blocked == 0


class ClaimState(Struct, frozen=True, kw_only=True, gc=False):
    """One grant of one Work, with the commit that made it and the one that ended it."""

    claim: Claim
    commit_id: str
    request_id: str
    at: int
    state: ClaimPhase = "open"
    terminal_commit_id: str | None = None
    cancellation_reason: str | None = None
    retry_not_before: int | None = None


class DispatchState(Struct, frozen=True, kw_only=True, gc=False):
    """One group: its immutable assignment and profile, and how its launch stands.

    `grant_principal` stands in for the launch credential until a start names it. `noted_id` is the
    commit of the latest launch record; a checkpoint forgets it.
    """

    assignment: Assignment
    profile: Profile
    grant_principal: str
    granted_at: int
    open_claims: int
    state: DispatchPhase = "reserved"
    released: bool = False
    lifecycle_writes: int = 0
    sender: Actor | None = None
    started_at: int | None = None
    run: Run | None = None
    reason: str | None = None
    credential_principal: str | None = None
    released_at: int | None = None
    conclusion: str | None = None
    noted_id: str | None = None

    @property
    def principal(self) -> str:
        """Who the run must belong to (wire-v3 §10, `aw` profiles)."""
        if isinstance(self.profile.principal, str):
            return self.profile.principal
        return self.credential_principal or self.grant_principal


class RequestState(Struct, frozen=True, kw_only=True, gc=False):
    """An accepted request and what it made; enough to answer it again."""

    id: str
    request_id: str
    kind: str
    fingerprint: str
    parameters_digest: str
    actor: Actor
    policy_epoch: str
    at: int
    claims: tuple[str, ...]
    works: tuple[str, ...] = ()
    dispatch_parameters: DispatchNextParameters | None = None


class GraphState(Struct, frozen=True, kw_only=True, gc=False):
    """One graph: its pool, its Work count and its distinct gates."""

    pool: str
    works: int = 0
    gates: frozenset[str] = frozenset()

    @property
    def nodes(self) -> int:
        """Vertices of all kinds, as the graph limit counts them (§7.16)."""
        return self.works + len(self.gates)


class Clock(Struct, frozen=True, gc=False):
    """A sibling set's virtual time, in integer ticks (§7.5)."""

    v: int = 0
    passes: dict[str, int] = {}
    active: frozenset[str] = frozenset()


class PoolClocks(Struct, frozen=True, gc=False):
    """A pool's class clock and its key clock per priority."""

    classes: Clock = Clock()
    keys: dict[int, Clock] = {}
