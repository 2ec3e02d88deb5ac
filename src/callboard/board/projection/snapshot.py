"""A state document as closed records: what a checkpoint may say, field by field.

Source: wire-v3 §8. Types only, read from bytes that anybody may have written; whether the parts
agree with each other is judged by `contradictions`, what they mean is rebuilt by `restore`. A
field that is not named here is refused, so whatever `document` adds is added here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from callboard import canonical
from callboard.board.projection import routes
from callboard.board.projection.entities import Barrier, ClaimPhase, DispatchPhase, Ownership
from callboard.board.protocol import operations as ops
from callboard.board.protocol.commit import MAX_OPERATIONS, Assignment, DispatchNextParameters
from callboard.board.protocol.policy import PolicyDocument, Profile, Record
from callboard.board.protocol.scalars import (
    Decimal,
    Digest,
    FairnessKey,
    Identity,
    Priority,
    ReasonCode,
    RepositoryName,
    Revision,
    Timestamp,
)
from callboard.errors import CallboardError
from callboard.validate import faults_of, parse, refuse

Count = Annotated[int, Meta(ge=0, le=canonical.MAX_SAFE_INTEGER)]
Ticks = Annotated[str, Meta(pattern=r"\A(?:0|[1-9][0-9]{0,511})\Z")]
"""A canonical decimal. The weights' least common multiple has 433 digits at most, so that no
history reaches 512, and Python reads that many."""


class PositionRecord(Record, frozen=True, kw_only=True):
    """Where a Work was first committed: the commit's place in the chain, the operation in it."""

    commit: Count
    operation: Annotated[int, Meta(ge=0, le=MAX_OPERATIONS - 1)]


class WorkRecord(ops.Work, frozen=True, kw_only=True, tag_field="kind", tag="Work"):
    """A Work operation and what became of it."""

    state: Ownership
    position: PositionRecord
    attempts: Annotated[int, Meta(ge=0, le=16)]
    retry_not_before: Timestamp
    barrier: Barrier
    claim_id: Identity | UnsetType = UNSET
    completion_id: Identity | UnsetType = UNSET
    result: ops.Payload | UnsetType = UNSET
    result_commit_id: Identity | UnsetType = UNSET
    disposition: Literal["none", "partial", "unknown"] | UnsetType = UNSET
    cancellation_reason: ReasonCode | UnsetType = UNSET
    cancellation_commit_id: Identity | UnsetType = UNSET
    effective_priority: Priority | UnsetType = UNSET
    admission_contract: Digest | UnsetType = UNSET
    admission_ref: Revision | UnsetType = UNSET


def is_settled(work: WorkRecord) -> bool:
    """Cancelled, or completed with its delivery decided."""
    return work.state == "cancelled" or (work.state == "completed" and work.barrier != "pending")


class ClaimRecord(ops.Claim, frozen=True, kw_only=True, tag_field="kind", tag="Claim"):
    """A Claim operation and how it ended."""

    state: ClaimPhase
    commit_id: Identity
    request_id: Identity
    terminal_commit_id: Identity | UnsetType = UNSET
    cancellation_reason: ReasonCode | UnsetType = UNSET
    retry_not_before: Timestamp | UnsetType = UNSET


class DispatchRecord(Assignment, frozen=True, kw_only=True):
    """An assignment, the profile it froze, and how its launch stands."""

    profile: Profile
    state: DispatchPhase
    released: bool
    lifecycle_writes: Count
    sender: ops.Actor | UnsetType = UNSET
    run: ops.Run | UnsetType = UNSET
    reason: ReasonCode | UnsetType = UNSET
    credential_principal: Decimal | UnsetType = UNSET


class RequestRecord(Record, frozen=True, kw_only=True):
    """An accepted request; `id` is its commit's."""

    id: Identity
    request_id: Identity
    kind: Identity
    fingerprint: Digest
    parameters_digest: Digest
    dispatch_parameters: DispatchNextParameters | UnsetType = UNSET
    actor: ops.Actor
    policy_epoch: Identity
    at: Timestamp
    claims: Annotated[list[Identity], Meta(max_length=MAX_OPERATIONS)]


class ClockRecord(Record, frozen=True, kw_only=True):
    """A sibling set's virtual time."""

    v: Ticks
    passes: dict[FairnessKey, Ticks] = field(name="pass")
    active: dict[FairnessKey, bool]


class PoolClocksRecord(Record, frozen=True, kw_only=True):
    """A pool's class clock, and its key clock per priority."""

    classes: ClockRecord
    keys: Annotated[dict[Literal["1", "2", "3", "4", "5"], ClockRecord], Meta(max_length=5)]


class StatsRecord(Record, frozen=True, kw_only=True):
    """The totals; `dispatches` counts the unreleased ones."""

    work: Count
    available: Count
    claimed: Count
    completed: Count
    cancelled: Count
    claims: Count
    dispatches: Count
    transactions: Count
    nodes: Count


class RevisionRecord(Record, frozen=True, kw_only=True):
    """One registered revision of a worker."""

    profile: Profile
    available: bool


class RouteRecord(Record, frozen=True, kw_only=True):
    """A worker that was deployed since the policy: its revisions, and the current one's ref."""

    current: Revision
    revisions: Annotated[dict[Revision, RevisionRecord], Meta(min_length=1)]


def route_of(record: RouteRecord) -> routes.Route:
    """The route that a record describes."""
    return routes.Route(
        record.current,
        {ref: routes.Revision(one.profile, one.available) for ref, one in record.revisions.items()},
    )


class LinkRecord(Record, frozen=True, kw_only=True):
    """A Work's mirror."""

    resource: ops.Resource
    projector_ref: Revision
    claim_id: Identity | UnsetType = UNSET
    commit_id: Identity


class CommentRecord(Record, frozen=True, kw_only=True):
    """A comment that mirrors a Work or one of its Claims."""

    work_id: Digest
    projector_ref: Revision
    claim_id: Identity | UnsetType = UNSET
    authority_claim_id: Identity | UnsetType = UNSET
    commit_id: Identity


class StateRecord(Record, frozen=True, kw_only=True):
    """A whole state document, its requests in plain form."""

    repository: RepositoryName
    tip: Identity
    policy_epoch: Identity
    policy: PolicyDocument
    works: dict[Digest, WorkRecord]
    claims: dict[Identity, ClaimRecord]
    dispatches: dict[Identity, DispatchRecord]
    observations: dict[str, ops.Observation]
    clocks: dict[Identity, PoolClocksRecord]
    admission_paused: bool
    grants_paused: bool
    credential_generation: Identity
    stats: StatsRecord
    ledger_bytes: Annotated[int, Meta(ge=1, le=canonical.MAX_SAFE_INTEGER)]
    observation_writes: Count
    seen_epochs: dict[Identity, bool]
    seen_generations: dict[Identity, bool]
    observation_ids: dict[Identity, ops.Observation]
    terminal_barriers: dict[Digest, Literal["verified", "failed"]]
    cancellations: dict[Digest, Identity]
    completion_times: dict[Digest, Timestamp]
    last_at: Timestamp
    deployments: dict[Identity, dict[Identity, RouteRecord]] | UnsetType = UNSET
    issue_links: dict[Digest, LinkRecord] | UnsetType = UNSET
    issue_comments: dict[Decimal, CommentRecord] | UnsetType = UNSET


_STATE_DEPTH = 3
"""How deep a state stands in a checkpoint's line."""


def parse_state(
    state: dict[str, Any], requests: Any, plain: bytes
) -> tuple[StateRecord, list[RequestRecord]]:
    """A state document without its requests, and these, as records.

    `plain` are the canonical bytes of both together. Raises `checkpoint_invalid` with every fault
    and where it is, or `resource_limit`.
    """
    try:
        found = msgspec.convert(state, StateRecord), msgspec.convert(requests, list[RequestRecord])
    except msgspec.ValidationError:
        found = None
    # Types leave open what text may hold, and how free-form values are nested.
    if found is not None and plain.isascii() and _is_bounded(found[0], plain):
        return found
    _refuse_unbounded(state)
    record = parse(StateRecord, state, what=_WHAT, code="checkpoint_invalid")
    return record, parse_requests(requests)


_WHAT = "checkpoint state"


def parse_requests(found: Any) -> list[RequestRecord]:
    """The array as records, each fault with its pointer; it may be longer than one in a line."""
    if not isinstance(found, list):
        raise refuse(
            "checkpoint_invalid", _WHAT, faults_of(list[RequestRecord], found, "/requests"), _HINT
        )
    for place, one in enumerate(found):
        # Those out of a compressed array are records already, whose text is still to be judged.
        value = msgspec.to_builtins(one)
        faults = faults_of(RequestRecord, value, f"/requests/{place}")
        if faults:
            raise refuse("checkpoint_invalid", _WHAT, faults, _HINT)
    return msgspec.convert(msgspec.to_builtins(found), list[RequestRecord])


_HINT = "correct the named fields"


def _is_bounded(record: StateRecord, plain: bytes) -> bool:
    projectors = record.policy.projectors
    if projectors is not UNSET and len(projectors) > canonical.MAX_ARRAY_MEMBERS:
        return False
    free = list(_free_forms(record))
    if not all(canonical.within_profile(value, depth) for depth, value in free):
        return False
    inside = sum(
        len(canonical.CONTROL.findall(canonical.encode_trusted(value))) for _depth, value in free
    )
    return len(canonical.CONTROL.findall(plain)) == inside


def _free_forms(record: StateRecord) -> Iterator[tuple[int, Any]]:
    """The values that types leave open, with the depth at which each stands in the line."""
    for work in record.works.values():
        yield _STATE_DEPTH + 3, work.payload
        if work.result is not UNSET:
            yield _STATE_DEPTH + 3, work.result
    for dispatch in record.dispatches.values():
        for member in dispatch.claims:
            yield _STATE_DEPTH + 5, member.work
            for reference in member.result_refs:
                yield _STATE_DEPTH + 7, reference.descriptor
    projectors = record.policy.projectors
    if projectors is not UNSET:
        named = projectors.values() if isinstance(projectors, dict) else projectors
        for projector in named:
            for value in (projector.backing_issues, projector.completion_policy):
                if value is not UNSET:
                    yield _STATE_DEPTH + 4, value


def _refuse_unbounded(state: dict[str, Any]) -> None:
    if not canonical.within_profile(state, _STATE_DEPTH):
        raise CallboardError(
            "resource_limit",
            f"the checkpoint's state is nested deeper than {canonical.MAX_DEPTH} levels, or has a "
            "number or an array beyond the bounds",
            "the checkpoint was written by a faulty program; go back to the commit before it",
            {"limit": canonical.MAX_DEPTH},
        )
