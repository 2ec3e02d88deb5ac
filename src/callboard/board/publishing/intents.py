"""What somebody wants of the board, before it is known which tip it will meet.

Source: specification 1, §7.7. An intent keeps its request id and meaning over every retry; its
operations are made anew against each tip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from callboard.board.ledger.budget import check_room_to_grant
from callboard.board.ledger.finish import finish_operations
from callboard.board.projection.entities import RequestState
from callboard.board.projection.routes import Route
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.admission import stands
from callboard.board.protocol import commit as wire
from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.protocol.policy import PolicyDocument, Record
from callboard.board.publishing.compilation import compile_plan
from callboard.board.publishing.plan import Plan
from callboard.board.scheduling.packing import BatchRequest, plan_batch
from callboard.errors import CallboardError

MAX_NODES = 256


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one commit would hold."""

    parameters: Record
    operations: list[ops.Operation]
    judge: Callable[[Projection], None] | None = None
    """What the writer asks of the state that the commit leads to, beside what the board does."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """A normal answer without a write: why, and what was found."""

    reason: str
    details: dict[str, object] = field(default_factory=dict)


ReadCommit = Callable[[], wire.QueueCommit]


class Intent(Protocol):
    """One logical request."""

    @property
    def kind(self) -> str: ...

    @property
    def request_id(self) -> str: ...

    @property
    def actor(self) -> ops.Actor: ...

    def build(self, projection: Projection, at: int, commit_id: str) -> Candidate | Nothing:
        """The candidate against this state at this time."""
        ...

    def is_same(self, known: RequestState, projection: Projection, read: ReadCommit) -> bool:
        """Whether the accepted request of this id means what this intent means.

        The state should tell, as a checkpoint may stand for the request's commit; `read` answers
        that commit, or refuses with `history_unavailable` where it is out of reach.
        """
        ...


RouteOf = Callable[[str, str], Route]
"""The route of a worker, by pool and profile name."""


def _routes(projection: Projection, policy: PolicyDocument) -> RouteOf:
    """The board's routes, or before there is a board those that its first policy begins with."""
    if projection.tip is None:
        return lambda pool, profile: Route.of(policy.pools[pool].profiles[profile])
    return lambda pool, profile: projection.pools[pool].routes[profile]


@dataclass(frozen=True, slots=True)
class Submit:
    """Post a plan; on an empty board it brings the policy that `propose` gives.

    `verify` is given the workers' routes and what is new of the plan, by its place among the
    plan's nodes.
    """

    request_id: str
    actor: ops.Actor
    plan: Plan
    propose: Callable[[], PolicyDocument]
    verify: Callable[[RouteOf, Mapping[int, ops.Work]], None]
    kind: str = "submit"

    def build(self, projection: Projection, at: int, commit_id: str) -> Candidate | Nothing:
        genesis = projection.tip is None
        policy = self.propose() if genesis else projection.policy
        works = self._works(projection, policy, at)
        fresh = {at: work for at, work in enumerate(works) if not stands(projection, work)}
        if not fresh:
            return Nothing("already_submitted", {"works": [work.work_id for work in works]})
        limit = MAX_NODES - 1 if genesis else MAX_NODES
        if len(works) > limit:
            raise CallboardError(
                "plan_too_large",
                f"the plan has {len(works)} nodes, one request takes {limit}",
                "submit it with --split",
                {"count": len(works), "limit": limit},
            )
        self.verify(_routes(projection, policy), fresh)
        operations: list[ops.Operation] = [*works]
        if genesis:
            epoch = identities.epoch_id(self.request_id)
            operations.insert(0, ops.Policy(epoch=epoch, policy=policy))
        return Candidate(wire.SubmitParameters(nodes=works), operations, check_room_to_grant)

    def _works(self, projection: Projection, policy: PolicyDocument, at: int) -> list[ops.Work]:
        def standing(work_id: str) -> ops.Work | None:
            state = projection.works.get(work_id)
            return None if state is None else state.work

        return compile_plan(self.plan, policy, standing, at)

    def is_same(self, known: RequestState, projection: Projection, _read: ReadCommit) -> bool:
        works = self._works(projection, projection.policy, known.at)
        return matches(known, self.actor, self.kind, wire.SubmitParameters(nodes=works))


@dataclass(frozen=True, slots=True)
class _Stated:
    """A request whose parameters are given, whatever tip it meets: they alone are its meaning."""

    request_id: str
    actor: ops.Actor
    parameters: Record
    kind: str

    def is_same(self, known: RequestState, _projection: Projection, _read: ReadCommit) -> bool:
        return matches(known, self.actor, self.kind, self.parameters)


@dataclass(frozen=True, slots=True)
class DispatchNext(_Stated):
    """Ask for the next fair batch of one pool."""

    parameters: wire.DispatchNextParameters
    kind: str = "dispatch_next"

    def build(self, projection: Projection, at: int, commit_id: str) -> Candidate | Nothing:
        asked = self.parameters
        plan = plan_batch(
            projection,
            BatchRequest.of(asked, request_id=self.request_id, commit_id=commit_id),
            at,
        )
        if not plan.claims:
            limit = {} if plan.stop.limit is None else {"limit": plan.stop.limit}
            return Nothing(plan.stop.reason, {"pool": asked.pool, **limit})
        return Candidate(asked, [*plan.claims])


@dataclass(frozen=True, slots=True)
class Finish(_Stated):
    """End one assigned Claim, as its own worker run."""

    parameters: wire.FinishParameters
    kind: str = "finish"

    def build(self, projection: Projection, at: int, commit_id: str) -> Candidate | Nothing:
        return Candidate(self.parameters, finish_operations(projection, self.parameters, at))


Builder = Callable[[Projection, int], "list[ops.Operation] | Nothing"]
Recogniser = Callable[[Projection, RequestState, ReadCommit], bool]


def named_by_its_id(_projection: Projection, _known: RequestState, _read: ReadCommit) -> bool:
    """The recogniser of requests whose id itself names their one fact, a Release of one dispatch
    say: whatever stands under it is the answer."""
    return True


@dataclass(frozen=True, slots=True)
class Operations:
    """A request whose parameters are its operations, made anew by `make` for each tip.

    `recognise` tells whether an accepted request of the same id, kind and role says what is asked.
    It cannot be `make` again: that is asked of the state after the request.
    """

    kind: str
    request_id: str
    actor: ops.Actor
    make: Builder
    recognise: Recogniser

    def build(self, projection: Projection, at: int, commit_id: str) -> Candidate | Nothing:
        made = self.make(projection, at)
        if isinstance(made, Nothing):
            return made
        return Candidate(wire.OperationsParameters(operations=made), made)

    def is_same(self, known: RequestState, projection: Projection, read: ReadCommit) -> bool:
        if (known.kind, known.actor.role) != (self.kind, self.actor.role):
            return False
        return self.recognise(projection, known, read)


def same_operations(known: RequestState, actor: ops.Actor, asked: list[ops.Operation]) -> bool:
    """Whether an accepted request is that actor's, for exactly these operations."""
    return matches(known, actor, known.kind, wire.OperationsParameters(operations=asked))


def matches(known: RequestState, actor: ops.Actor, kind: str, parameters: Record) -> bool:
    """Whether an accepted request is that actor's, of this kind and with these parameters."""
    return known.fingerprint == identities.fingerprint(actor, kind, parameters)
