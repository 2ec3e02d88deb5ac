"""The fair prefix of one request: winners in order, packed into groups, until one does not fit.

Source: specification 1, §§7.3, 7.14; wire-v3 §6. A winner that does not fit ends the prefix; it is
never passed over. The same function makes a batch and verifies one that was committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from callboard.board.projection.entities import PoolClocks, WorkState
from callboard.board.projection.state import Projection
from callboard.board.protocol import identities
from callboard.board.protocol.commit import (
    AssignedClaim,
    Assignment,
    DispatchNextParameters,
    ResultReference,
)
from callboard.board.protocol.operations import Claim
from callboard.board.protocol.policy import Profile
from callboard.board.scheduling.competition import Competition, Stop, Winner
from callboard.canonical import encode_trusted
from callboard.errors import CallboardError


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """What a dispatch_next asks for, with the identities its Claims derive from.

    `observed` counts the observations that stand before the Claims in the same commit;
    `profiles` are those the caller may launch, None for all.
    """

    pool: str
    max_claims: int
    max_dispatches: int
    max_bytes: int
    request_id: str
    commit_id: str
    observed: int = 0
    profiles: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        parameters: DispatchNextParameters,
        *,
        request_id: str,
        commit_id: str,
        observed: int = 0,
    ) -> BatchRequest:
        """The batch that a dispatch_next with these parameters asks for."""
        return cls(
            pool=parameters.pool,
            max_claims=parameters.max_claims,
            max_dispatches=parameters.max_dispatches,
            max_bytes=parameters.max_bytes,
            request_id=request_id,
            commit_id=commit_id,
            observed=observed,
            profiles=(
                tuple(parameters.worker_profiles)
                if isinstance(parameters.worker_profiles, list)
                else None
            ),
        )


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The largest fair prefix, why it ended there, and the clocks it leaves.

    `profiles` are those that the assignments' runs are to have, one each.
    """

    claims: list[Claim]
    assignments: list[Assignment]
    profiles: list[Profile]
    winners: list[Winner]
    stop: Stop
    clocks: PoolClocks


@dataclass(slots=True)
class _Group:
    dispatch_id: str
    profile_name: str
    profile: Profile
    trust_domain: str
    key: str
    size_bytes: int
    members: list[AssignedClaim] = field(default_factory=list)

    def takes(self, state: WorkState, profile: Profile) -> bool:
        """Whether a Work that runs as `profile` may share this group's run."""
        work = state.work
        return (
            self.profile_name == work.worker_profile
            and self.profile.ref == profile.ref
            and self.trust_domain == work.batch_trust_domain
            and len(self.members) < self.profile.max_claims
            and (self.profile.share_keys or self.key == work.fairness_key)
        )


def plan_batch(projection: Projection, request: BatchRequest, at: int) -> BatchPlan:
    """The Claims that `request` gets at `at`, with their assignments."""
    return _Packer(projection, request, at).run()


class _Packer:
    def __init__(self, projection: Projection, request: BatchRequest, at: int) -> None:
        self._projection = projection
        self._request = request
        self._competition = Competition(projection, request.pool, at, profiles=request.profiles)
        self._pool = projection.pool(request.pool)
        self._routes = projection.pool_state(request.pool).routes
        self._limit_bytes = min(request.max_bytes, projection.policy.limits.assignment_bytes)
        self._groups: list[_Group] = []
        self._claims: list[Claim] = []
        self._winners: list[Winner] = []

    def run(self) -> BatchPlan:
        stop = self._fill()
        return BatchPlan(
            claims=self._claims,
            assignments=[self._assignment(group) for group in self._groups],
            profiles=[group.profile for group in self._groups],
            winners=self._winners,
            stop=stop,
            clocks=self._competition.clocks(),
        )

    def _fill(self) -> Stop:
        """Serve winners until something ends the prefix; answers what did."""
        while (stop := self._budget()) is None:
            winner = self._competition.next()
            if isinstance(winner, Stop):
                return winner
            blocked = self._place(winner)
            if blocked is not None:
                return blocked
            self._competition.serve(winner)
            self._winners.append(winner)
        return stop

    def _budget(self) -> Stop | None:
        if len(self._claims) >= self._request.max_claims:
            return Stop("claim_budget_reached")
        operations = self._request.observed + len(self._claims)
        if operations >= self._projection.policy.limits.operations:
            return Stop("operation_budget_reached")
        return None

    def _place(self, winner: Winner) -> Stop | None:
        """Put the winner into the first group that takes it, or say what is in the way."""
        profile = self._profile(winner)
        for group in self._groups:
            if group.takes(winner.state, profile):
                member = self._member(winner, len(group.members) + 1)
                size = len(encode_trusted(member)) + 1
                if group.size_bytes + size <= self._limit_bytes:
                    self._join(group, winner, member, size)
                    return None
        if len(self._groups) >= self._request.max_dispatches:
            return Stop("dispatch_budget_blocked")
        unreleased = self._projection.pool_state(self._request.pool).unreleased
        if unreleased + len(self._groups) >= self._pool.native_limit:
            return Stop("capacity_blocked", "native")
        group = self._open(winner, profile)
        self._join(group, winner, self._member(winner, 1), 0)
        group.size_bytes = len(encode_trusted(self._assignment(group)))
        if group.size_bytes > self._limit_bytes:
            self._claims.pop()
            return Stop("assignment_size_blocked")
        self._groups.append(group)
        return None

    def _member(self, winner: Winner, index: int) -> AssignedClaim:
        work = winner.state.work
        return AssignedClaim(
            handle=identities.handle(index),
            claim_id=identities.claim_id(self._request.request_id, len(self._claims) + 1),
            work_id=work.work_id,
            work=work.payload,
            result_refs=[self._reference(predecessor) for predecessor in work.predecessors],
        )

    def _reference(self, work_id: str) -> ResultReference:
        state = self._projection.works[work_id]
        if state.result is None or state.result_commit_id is None:
            raise CallboardError(
                "dependency_result_unavailable",
                f"predecessor {work_id} has no verified Result",
                "the board's index of ready Work is wrong; verify the ledger",
            )
        return ResultReference(
            work_id=work_id,
            result_commit_id=state.result_commit_id,
            descriptor=state.result,
        )

    def _profile(self, winner: Winner) -> Profile:
        """What the winner runs as: the profile of the revision its lane leads to (§7.10)."""
        lane = winner.state.lane
        return lane.profile_on(self._routes[lane.profile])

    def _open(self, winner: Winner, profile: Profile) -> _Group:
        work = winner.state.work
        return _Group(
            dispatch_id=identities.dispatch_id(self._request.request_id, len(self._groups) + 1),
            profile_name=work.worker_profile,
            profile=profile,
            trust_domain=work.batch_trust_domain,
            key=work.fairness_key,
            size_bytes=0,
        )

    def _join(self, group: _Group, winner: Winner, member: AssignedClaim, size: int) -> None:
        group.members.append(member)
        group.size_bytes += size
        self._claims.append(
            Claim(
                work_id=member.work_id,
                claim_id=member.claim_id,
                dispatch_id=group.dispatch_id,
                handle=member.handle,
                observations=winner.observations,
            )
        )

    def _assignment(self, group: _Group) -> Assignment:
        return Assignment(
            version=3,
            dispatch_id=group.dispatch_id,
            request_id=self._request.request_id,
            commit_id=self._request.commit_id,
            policy_epoch=str(self._projection.policy_epoch),
            pool=self._request.pool,
            worker_profile=group.profile_name,
            claims=group.members,
        )
