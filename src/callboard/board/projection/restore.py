"""From a state document back to a projection with all its indexes.

Source: specification 1, §§7.10, 7.17; wire-v3 §8. The document may come from anybody: it is parsed
into closed records, refused where it contradicts itself, and only then built. What it does not keep
and its requests do not tell (why a delivery failed, how a run ended) stays None.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from callboard.board.projection.contradictions import Contradictions
from callboard.board.projection.entities import (
    ClaimState,
    Clock,
    DispatchState,
    GraphState,
    PoolClocks,
    RequestState,
    WorkState,
)
from callboard.board.projection.links import CommentState, LinkState, issue_key
from callboard.board.projection.reserve import of_dispatch, of_work
from callboard.board.projection.routes import Lane, Revision, admitted
from callboard.board.projection.snapshot import (
    ClockRecord,
    DispatchRecord,
    RequestRecord,
    StateRecord,
    WorkRecord,
    is_settled,
    parse_state,
    route_of,
)
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import POSITION_BITS
from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.protocol.commit import Assignment
from callboard.board.protocol.policy import Record
from callboard.canonical import encode_trusted
from callboard.validate import refuse

T = TypeVar("T", bound=Record)


def restored(state: dict[str, Any], plain_requests: Any, plain: bytes) -> Projection:
    """The projection that `state` (without its requests) and `plain_requests` describe.

    `plain` are the canonical bytes of both together. Raises `checkpoint_invalid` with every fault
    and its JSON pointer, or `resource_limit`.
    """
    record, requests = parse_state(state, plain_requests, plain)
    faults = Contradictions(record, requests).look()
    if faults:
        raise refuse("checkpoint_invalid", "checkpoint state", faults, _HINT)
    return _Builder(record, requests).build()


_HINT = "the checkpoint was altered or written by a faulty program; go back to the commit before it"


class _Builder:
    """Fills one projection from records that are known to agree."""

    def __init__(self, record: StateRecord, requests: list[RequestRecord]) -> None:
        self._record = record
        self._requests = requests
        self._by_request = {one.request_id: one for one in requests}
        self._into = Projection()

    def build(self) -> Projection:
        record, into = self._record, self._into
        into.install_policy(record.policy_epoch, record.policy)
        for name, routes in (record.deployments or {}).items():
            into.pools[name].routes.update({one: route_of(routes[one]) for one in routes})
        into.repository = record.repository
        into.tip = record.tip
        into.last_at = record.last_at
        into.ledger_bytes = record.ledger_bytes
        into.admission_paused = record.admission_paused
        into.grants_paused = record.grants_paused
        into.credential_generation = record.credential_generation
        into.observation_writes = record.observation_writes
        into.seen_epochs = dict(record.seen_epochs)
        into.seen_generations = dict(record.seen_generations)
        into.observations = dict(record.observations)
        into.observation_ids = dict(record.observation_ids)
        into.clocks = {
            pool: PoolClocks(
                _clock(clocks.classes),
                {int(priority): _clock(clock) for priority, clock in clocks.keys.items()},
            )
            for pool, clocks in record.clocks.items()
        }
        into.commit_ids = {one.id: place for place, one in enumerate(self._requests)}
        self._works()
        self._claims()
        self._dispatches()
        self._accept_requests()
        self._mirrors()
        self._count()
        return into

    def _works(self) -> None:
        into = self._into
        ordered = sorted(self._record.works.values(), key=_place)
        for work in ordered:
            state = self._work_state(work)
            into.works[work.work_id] = state
            into.by_place[state.place] = work.work_id
            for predecessor in state.work.predecessors:
                into.dependents.setdefault(predecessor, []).append(work.work_id)
            if state.barrier == "pending":
                into.pending_deliveries[work.work_id] = None
            graph = into.graphs.get(work.graph_id) or GraphState(pool=work.pool)
            gates = graph.gates.union(identities.gate_identity(gate) for gate in state.gates)
            into.graphs[work.graph_id] = GraphState(
                pool=graph.pool, works=graph.works + 1, gates=gates
            )

    def _work_state(self, work: WorkRecord) -> WorkState:
        """One Work."""
        known = self._record.works
        return WorkState(
            work=_only(ops.Work, work),
            place=_place(work),
            lane=self._lane(work),
            priority=work.effective_priority or work.priority,
            payload_bytes=len(encode_trusted(work.payload)),
            gates=work.gates,
            state=work.state,
            barrier=work.barrier,
            attempts=work.attempts,
            retry_not_before=work.retry_not_before,
            blocked=sum(known[one].barrier != "verified" for one in work.predecessors),
            claim_id=_or_none(work.claim_id),
            completion_id=_or_none(work.completion_id),
            completed_at=self._record.completion_times.get(work.work_id),
            result=_or_none(work.result),
            result_commit_id=_or_none(work.result_commit_id),
            disposition=_or_none(work.disposition),
            cancellation_reason=_or_none(work.cancellation_reason),
            cancellation_commit_id=_or_none(work.cancellation_commit_id),
        )

    def _lane(self, work: WorkRecord) -> Lane:
        """Where it may run: as promised, which the policy tells where the record does not.

        Of settled Work the policy may not even know the pool, and nothing depends on it.
        """
        name = work.worker_profile
        pin = "" if work.execution_ref is UNSET else work.execution_ref
        if is_settled(work):
            return Lane(name, pin, "")
        profile = self._record.policy.pools[work.pool].profiles[name]
        contract, ref = admitted(name, Revision(profile), None).promise
        if isinstance(work.admission_contract, str):
            contract, ref = work.admission_contract, ""
        elif isinstance(work.admission_ref, str):
            contract, ref = "", work.admission_ref
        return Lane(name, pin or ref, contract)

    def _mirrors(self) -> None:
        links = self._into.links
        for work_id, one in (self._record.issue_links or {}).items():
            link = ops.IssueLink(
                work_id=work_id,
                resource=one.resource,
                projector_ref=one.projector_ref,
                claim_id=one.claim_id,
            )
            links.by_work[work_id] = LinkState(link, one.commit_id)
            links.by_issue[issue_key(one.resource)] = work_id
        for comment_id, said in (self._record.issue_comments or {}).items():
            comment = ops.IssueComment(
                work_id=said.work_id,
                comment_id=comment_id,
                projector_ref=said.projector_ref,
                claim_id=said.claim_id,
                authority_claim_id=said.authority_claim_id,
            )
            links.comments[comment_id] = CommentState(comment, said.commit_id)
            claim_id = "" if said.claim_id is UNSET else said.claim_id
            links.by_subject[said.work_id, claim_id] = comment_id

    def _claims(self) -> None:
        """In order of grant, as the requests list them."""
        for request in self._requests:
            for claim_id in request.claims:
                claim = self._record.claims[claim_id]
                self._into.claims[claim_id] = ClaimState(
                    claim=_only(ops.Claim, claim),
                    commit_id=claim.commit_id,
                    request_id=claim.request_id,
                    at=request.at,
                    state=claim.state,
                    terminal_commit_id=_or_none(claim.terminal_commit_id),
                    cancellation_reason=_or_none(claim.cancellation_reason),
                    retry_not_before=_or_none(claim.retry_not_before),
                )

    def _dispatches(self) -> None:
        """In order of grant; a start and a release are dated where a request is named for them."""
        into = self._into
        for claim in into.claims.values():
            dispatch_id = claim.claim.dispatch_id
            if dispatch_id not in into.dispatches:
                one = self._record.dispatches[dispatch_id]
                into.dispatches[dispatch_id] = self._dispatch_state(one, claim.request_id)
                if one.run is not UNSET:
                    into.runs[one.run.run_id] = dispatch_id
                if not one.released:
                    into.open_dispatches[dispatch_id] = None

    def _dispatch_state(self, one: DispatchRecord, request_id: str) -> DispatchState:
        granted = self._by_request[request_id]
        claims = self._record.claims
        started = self._by_request.get(f"start_{one.dispatch_id}")
        if started is not None and started.actor != one.sender:
            started = None
        released = self._by_request.get(f"release_{one.dispatch_id}") if one.released else None
        return DispatchState(
            assignment=_only(Assignment, one),
            profile=one.profile,
            grant_principal=granted.actor.principal,
            granted_at=granted.at,
            open_claims=sum(claims[member.claim_id].state == "open" for member in one.claims),
            state=one.state,
            released=one.released,
            lifecycle_writes=one.lifecycle_writes,
            sender=_or_none(one.sender),
            started_at=None if started is None else started.at,
            run=_or_none(one.run),
            reason=_or_none(one.reason),
            credential_principal=_or_none(one.credential_principal),
            released_at=None if released is None else released.at,
        )

    def _accept_requests(self) -> None:
        admitted: dict[int, list[str]] = {}
        for place, work_id in self._into.by_place.items():
            admitted.setdefault(place >> POSITION_BITS, []).append(work_id)
        for ordinal, one in enumerate(self._requests):
            self._into.requests[one.request_id] = RequestState(
                id=one.id,
                request_id=one.request_id,
                kind=one.kind,
                fingerprint=one.fingerprint,
                parameters_digest=one.parameters_digest,
                actor=one.actor,
                policy_epoch=one.policy_epoch,
                at=one.at,
                claims=tuple(one.claims),
                works=tuple(admitted.get(ordinal, ())),
                dispatch_parameters=_or_none(one.dispatch_parameters),
            )

    def _count(self) -> None:
        """Counters, the pools' frontiers and counts, and the running sum of the reserve."""
        into, policy = self._into, self._record.policy
        counters, stats = into.counters, self._record.stats
        for name in ("work", "available", "claimed", "completed", "cancelled", "claims"):
            setattr(counters, name, getattr(stats, name))
        counters.unreleased = stats.dispatches
        counters.transactions = stats.transactions
        counters.nodes = stats.nodes
        counters.pending_delivery = len(into.pending_deliveries)
        for state in into.works.values():
            if state.is_settled:
                continue
            pool = into.pools[state.work.pool]
            pool.unsettled += 1
            pool.available += state.state == "available"
            if state.is_ready:
                pool.frontier.enter(state)
            into.reserve_bytes += of_work(state, policy.pools[state.work.pool], policy.limits)
            if state.state == "claimed":
                key = state.work.fairness_key
                pool.open_claims += 1
                pool.open_by_key[key] = pool.open_by_key.get(key, 0) + 1
        for dispatch_id in into.open_dispatches:
            one = into.dispatches[dispatch_id]
            name = one.assignment.pool
            into.pools[name].unreleased += 1
            into.reserve_bytes += of_dispatch(one, policy.pools[name], policy.limits)


def _place(work: WorkRecord) -> int:
    return work.position.commit << POSITION_BITS | work.position.operation


def _only(kind: type[T], record: Record) -> T:
    """The part of a record that is a `kind`."""
    return kind(**{name: getattr(record, name) for name in _fields(kind)})


def _fields(kind: type[Record]) -> Iterable[str]:
    return kind.__struct_fields__


def _or_none(value: Any) -> Any:
    return None if isinstance(value, UnsetType) else value


def _clock(record: ClockRecord) -> Clock:
    passes = {name: int(ticks) for name, ticks in record.passes.items()}
    return Clock(int(record.v), passes, frozenset(record.active))
