"""Work: atomic admission of a graph extension.

Source: specification 1, §§7.2, 7.15, 7.16; wire-v3 §§5-7. All Work of a commit is judged
together, so that references may point forward; either all of it is admitted or none.
"""

from __future__ import annotations

from msgspec import UNSET

from callboard.board.projection.entities import WorkState
from callboard.board.projection.routes import Lane
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import Context
from callboard.board.projection.transitions.entitlement import check_work
from callboard.board.projection.transitions.graph import (
    check_references,
    count_in_graph,
    refuse_cycle,
)
from callboard.board.protocol import identities
from callboard.board.protocol.commit import (
    MAX_OPERATIONS,
    AssignedClaim,
    Assignment,
    ResultReference,
)
from callboard.board.protocol.operations import Work
from callboard.board.protocol.scalars import MAX_IDENTITY_BYTES
from callboard.canonical import encode_trusted, same_value
from callboard.errors import CallboardError

_REQUEST_ID = "x" * MAX_IDENTITY_BYTES
_COMMIT_ID = identities.commit_id(None, "")


def admit(projection: Projection, context: Context, works: list[tuple[int, Work]]) -> int:
    """Admit `works` (operation index, record); answers how many were new.

    An identical record that already stands keeps its place; another one under the same identity
    is `work_conflict`.
    """
    _refuse_repetition(works)
    fresh = [(index, work) for index, work in works if not stands(projection, work)]
    if not fresh:
        return 0
    if projection.admission_paused:
        raise CallboardError(
            "admission_paused",
            "admission of new Work is paused",
            "resume it: callboard resume admission --reason CODE",
        )
    new = {work.work_id: work for _index, work in fresh}
    judged: dict[str, tuple[Lane, int]] = {}
    for work in new.values():
        lane = check_work(projection, context.commit.actor, work)
        judged[work.work_id] = (lane, _measure(projection, work))
    check_references(projection, new)
    refuse_cycle(new)
    for index, work in fresh:
        _enter(projection, work, context.place(index), *judged[work.work_id])
    _check_pending(projection, fresh)
    return len(fresh)


def _refuse_repetition(works: list[tuple[int, Work]]) -> None:
    seen: set[str] = set()
    for index, work in works:
        if work.work_id in seen:
            raise CallboardError(
                "node_duplicate",
                f"node {work.node_key!r} of graph {work.graph_id!r} stands twice",
                "give each node its own key",
                {"operation": index, "node_key": work.node_key},
            )
        seen.add(work.work_id)


def stands(projection: Projection, work: Work) -> bool:
    """Whether this very Work is admitted; another one in its place is `work_conflict`."""
    known = projection.works.get(work.work_id)
    if known is None:
        return False
    if same_value(known.work, work):
        return True
    changed = [name for name in work.__struct_fields__ if _differs(known.work, work, name)]
    raise CallboardError(
        "work_conflict",
        f"node {work.node_key!r} of graph {work.graph_id!r} already stands with another "
        + ", ".join(changed),
        "admitted Work never changes; give the new definition another node key",
        {"work_id": work.work_id, "fields": changed},
    )


def _differs(known: Work, work: Work, name: str) -> bool:
    before, after = getattr(known, name), getattr(work, name)
    if before is UNSET or after is UNSET:
        return before is not after
    return not same_value(before, after)


def _measure(projection: Projection, work: Work) -> int:
    """The payload's canonical bytes; refuses a payload or a join beyond the policy's limits."""
    limits = projection.policy.limits
    size = len(encode_trusted(work.payload))
    if size > limits.payload_bytes:
        raise CallboardError(
            "payload_limit",
            f"the payload of node {work.node_key!r} has {size} bytes of canonical JSON, its effect "
            f"contract included; at most {limits.payload_bytes} are allowed",
            "keep large inputs in the repository and name them in the payload",
            {"bytes": size, "limit_bytes": limits.payload_bytes},
        )
    if len(work.depends_on) > limits.predecessors:
        raise CallboardError(
            "predecessor_limit",
            f"node {work.node_key!r} has {len(work.depends_on)} predecessors, "
            f"at most {limits.predecessors} are allowed",
            "join in several steps",
            {"count": len(work.depends_on), "limit": limits.predecessors},
        )
    return size


def _enter(projection: Projection, work: Work, place: int, lane: Lane, payload_bytes: int) -> None:
    gates = work.gates
    count_in_graph(projection, work, gates)
    _check_assignment(projection, work)
    known = (projection.works.get(work_id) for work_id in work.predecessors)
    projection.add_work(
        WorkState(
            work=work,
            place=place,
            lane=lane,
            priority=work.priority,
            payload_bytes=payload_bytes,
            gates=gates,
            blocked=sum(one is None or one.barrier != "verified" for one in known),
        )
    )


def _check_assignment(projection: Projection, work: Work) -> None:
    """Refuse a Work that could not be handed to a worker alone (§7.17)."""
    limits = projection.policy.limits
    references: list[ResultReference] = []
    owed = 0
    for work_id in work.predecessors:
        known = projection.works.get(work_id)
        if known is not None and known.result is not None:
            descriptor, commit_id = known.result, str(known.result_commit_id)
        else:
            descriptor, commit_id = {}, _COMMIT_ID
            owed += limits.result_bytes
        references.append(
            ResultReference(work_id=work_id, result_commit_id=commit_id, descriptor=descriptor)
        )
    size = len(encode_trusted(_assigned_alone(projection, work, references))) + owed
    if size > limits.assignment_bytes:
        raise CallboardError(
            "assignment_limit",
            f"node {work.node_key!r} could need an assignment of {size} bytes, "
            f"at most {limits.assignment_bytes} are allowed",
            "shorten the payload or join fewer predecessors at once",
            {"bytes": size, "limit_bytes": limits.assignment_bytes},
        )


def _assigned_alone(
    projection: Projection, work: Work, references: list[ResultReference]
) -> Assignment:
    """The longest assignment that a group of this Work alone may need.

    Commit ids are taken as long as writers make them, the request's as long as one may be.
    """
    member = AssignedClaim(
        handle="h1",
        claim_id=identities.claim_id("", MAX_OPERATIONS),
        work_id=work.work_id,
        work=work.payload,
        result_refs=references,
    )
    return Assignment(
        version=3,
        dispatch_id=identities.dispatch_id("", MAX_OPERATIONS),
        request_id=_REQUEST_ID,
        commit_id=_COMMIT_ID,
        policy_epoch=str(projection.policy_epoch),
        pool=work.pool,
        worker_profile=work.worker_profile,
        claims=[member],
    )


def _check_pending(projection: Projection, fresh: list[tuple[int, Work]]) -> None:
    limit = projection.policy.limits.pending_nodes
    for name in sorted({work.pool for _index, work in fresh}):
        count = projection.pools[name].unsettled
        if count > limit:
            raise CallboardError(
                "pending_limit",
                f"pool {name!r} would have {count} unsettled nodes, at most {limit} are allowed",
                "submit less at once, or wait until some are settled",
                {"count": count, "limit": limit},
            )
