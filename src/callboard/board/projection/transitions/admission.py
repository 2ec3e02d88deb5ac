"""Work: atomic admission of a graph extension.

Source: specification 1, §§7.2, 7.15, 7.16; wire-v3 §§5-7. All Work of a commit is judged
together, so that references may point forward; either all of it is admitted or none.
"""

from __future__ import annotations

from msgspec import UNSET, structs

from callboard.board.projection.entities import GraphState, WorkState
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import Context, claim_of
from callboard.board.projection.transitions.evidence import DELIVERY_SOURCES, check_evidence
from callboard.board.protocol import identities
from callboard.board.protocol.commit import (
    MAX_OPERATIONS,
    AssignedClaim,
    Assignment,
    ResultReference,
)
from callboard.board.protocol.operations import (
    Actor,
    IssueDependency,
    PullRequestDependency,
    Work,
    WorkDependency,
)
from callboard.board.protocol.policy import Pool, Profile
from callboard.board.protocol.rules import work_faults
from callboard.board.protocol.scalars import MAX_IDENTITY_BYTES
from callboard.board.protocol.validate import refuse
from callboard.canonical import encode_trusted, same_value
from callboard.errors import CallboardError

_REMEDY_KINDS = frozenset({"delivery", "reconciliation"})
_REMEDY_SOURCES = DELIVERY_SOURCES | {"trusted_activation"}
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
    for work in new.values():
        _check_one(projection, context.commit.actor, work)
    _check_references(projection, new)
    _refuse_cycle(new)
    for index, work in fresh:
        _enter(projection, context, index, work)
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


def _check_one(projection: Projection, actor: Actor, work: Work) -> None:
    faults = work_faults(work)
    if faults:
        raise refuse("work_invalid", f"node {work.node_key!r}", faults, "correct the node")
    pool = projection.pool(work.pool)
    profile = pool.profiles.get(work.worker_profile)
    if profile is None:
        raise CallboardError(
            "profile_unknown",
            f"pool {work.pool!r} has no worker profile {work.worker_profile!r}",
            "profiles: " + ", ".join(sorted(pool.profiles)),
            {"node_key": work.node_key},
        )
    if work.batch_trust_domain != profile.trust_domain:
        raise CallboardError(
            "trust_domain_mismatch",
            f"node {work.node_key!r} has trust domain {work.batch_trust_domain!r}, its profile "
            f"{profile.trust_domain!r}",
            "the policy resolves the trust domain; leave it out",
        )
    _check_route(work, profile)
    _check_entitlement(projection, actor, work)
    _check_gates(pool, work)
    _check_replacement(projection, work)
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


def _check_route(work: Work, profile: Profile) -> None:
    """A pin or a stated contract must be what the profile has approved (§7.10)."""
    for name, approved in (
        ("execution_ref", profile.ref),
        ("logical_contract", profile.logical_contract),
    ):
        stated = getattr(work, name)
        if stated is not UNSET and stated != approved:
            raise CallboardError(
                "profile_mismatch",
                f"node {work.node_key!r} states {name} {stated}, its profile has {approved!r}",
                "leave it out, or use the approved value",
                {"node_key": work.node_key},
            )


def _check_entitlement(projection: Projection, actor: Actor, work: Work) -> None:
    policy = projection.policy
    if actor.role == "worker":
        _check_inheritance(projection, actor, work)
    registered = work.fairness_key in policy.accounting_weights
    if policy.is_aw:
        if not registered:
            raise _key_unknown(work, list(policy.accounting_weights))
        return
    producer = policy.producers.get(actor.principal)
    if producer is None:
        raise CallboardError(
            "not_authorized",
            f"principal {actor.principal} is no producer under this policy",
            "ask an administrator to enrol it in a new policy epoch",
        )
    if work.pool not in producer.pools or work.priority not in producer.priorities:
        raise CallboardError(
            "not_authorized",
            f"principal {actor.principal} may not submit priority {work.priority} "
            f"to pool {work.pool!r}",
            "use a pool and priority the policy lists for it",
        )
    if work.fairness_key not in producer.fairness_keys:
        raise _key_unknown(work, producer.fairness_keys)


def _key_unknown(work: Work, known: list[str]) -> CallboardError:
    return CallboardError(
        "fairness_key_unknown",
        f"node {work.node_key!r} asks for the fairness key {work.fairness_key!r}",
        "keys: " + ", ".join(repr(key) for key in sorted(known)[:20]),
        {"node_key": work.node_key, "fairness_key": work.fairness_key},
    )


def _check_inheritance(projection: Projection, actor: Actor, work: Work) -> None:
    """A worker's children keep its pool and key and gain no better priority (§7.2)."""
    parent = _worker_parent(projection, actor)
    better = work.priority < parent.priority
    if work.pool != parent.pool or work.fairness_key != parent.fairness_key or better:
        raise CallboardError(
            "inheritance_violated",
            f"node {work.node_key!r} asks for pool {work.pool!r}, key {work.fairness_key!r}, "
            f"priority {work.priority}; its parent has {parent.pool!r}, "
            f"{parent.fairness_key!r}, {parent.priority}",
            "children inherit pool, key and priority",
        )


def _worker_parent(projection: Projection, actor: Actor) -> Work:
    dispatch = projection.dispatches.get(str(actor.dispatch_id))
    members = dispatch.assignment.claims if dispatch else []
    for member in members:
        if actor.claim_handle in (member.handle, UNSET) and (
            actor.claim_handle is not UNSET or len(members) == 1
        ):
            claim = claim_of(projection, member.claim_id)
            return projection.works[claim.claim.work_id].work
    raise CallboardError(
        "claim_scope_invalid",
        f"the worker's dispatch {actor.dispatch_id!r} has no member {actor.claim_handle!r}",
        "a worker acts for one Claim of its own assignment",
    )


def _check_gates(pool: Pool, work: Work) -> None:
    named = [one.resource for one in work.depends_on if not isinstance(one, WorkDependency)]
    for resource in named:
        if resource.repository not in pool.allowed_repositories:
            raise CallboardError(
                "repository_not_allowed",
                f"node {work.node_key!r} names a resource of {resource.repository!r}",
                "the pool allows: " + ", ".join(sorted(pool.allowed_repositories)),
            )


def _check_replacement(projection: Projection, work: Work) -> None:
    if work.replacement_of is UNSET:
        return
    old = projection.works.get(work.replacement_of.work_id)
    if old is None or old.barrier != "failed":
        raise CallboardError(
            "replacement_invalid",
            f"node {work.node_key!r} replaces {work.replacement_of.work_id}, whose delivery "
            "has not failed",
            "only a delivery-failed node is replaced",
        )
    scope = (old.work.pool, old.work.fairness_key)
    if scope != (work.pool, work.fairness_key) or work.priority < old.work.priority:
        raise CallboardError(
            "replacement_invalid",
            f"node {work.node_key!r} leaves the scope of the node it replaces: pool "
            f"{scope[0]!r}, key {scope[1]!r}, priority {old.work.priority}",
            "a replacement inherits pool, key and priority",
        )
    claim = projection.claims[str(old.claim_id)]
    dispatch = projection.dispatches[claim.claim.dispatch_id]
    evidence = work.replacement_of.evidence
    check_evidence(projection, dispatch, evidence, _REMEDY_KINDS, _REMEDY_SOURCES)


def _check_references(projection: Projection, new: dict[str, Work]) -> None:
    for work in new.values():
        graph = projection.graphs.get(work.graph_id)
        if graph is not None and graph.pool != work.pool:
            raise _pool_mismatch(work, graph.pool)
        for dependency in work.depends_on:
            if not isinstance(dependency, WorkDependency):
                continue
            if dependency.work_id == work.work_id:
                raise CallboardError(
                    "dependency_self",
                    f"node {work.node_key!r} depends on itself",
                    "remove the edge",
                    {"node_key": work.node_key},
                )
            known = new.get(dependency.work_id)
            if known is None and dependency.work_id in projection.works:
                known = projection.works[dependency.work_id].work
            if known is None or known.graph_id != work.graph_id:
                raise CallboardError(
                    "dependency_missing",
                    f"node {work.node_key!r} depends on {dependency.work_id}, which is neither "
                    f"in graph {work.graph_id!r} nor in this submission",
                    "submit the predecessor in the same request or earlier",
                    {"node_key": work.node_key, "work_id": dependency.work_id},
                )


def _pool_mismatch(work: Work, pool: str) -> CallboardError:
    return CallboardError(
        "graph_pool_mismatch",
        f"node {work.node_key!r} names pool {work.pool!r}, its graph {work.graph_id!r} is in "
        f"{pool!r}",
        "one graph stays in one pool",
    )


def _refuse_cycle(new: dict[str, Work]) -> None:
    """Depth-first over the new nodes; older ones cannot point at them."""
    done: set[str] = set()
    for root in new:
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[tuple[str, bool]] = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                path.pop()
                on_path.discard(node)
                done.add(node)
                continue
            if node in on_path:
                raise _cycle(new, [*path[path.index(node) :], node])
            if node in done or node not in new:
                continue
            path.append(node)
            on_path.add(node)
            stack.append((node, True))
            stack.extend(
                (dependency.work_id, False)
                for dependency in reversed(new[node].depends_on)
                if isinstance(dependency, WorkDependency)
            )


def _cycle(new: dict[str, Work], path: list[str]) -> CallboardError:
    keys = [new[node].node_key for node in path]
    return CallboardError(
        "dependency_cycle",
        "these nodes wait for each other: " + " -> ".join(repr(key) for key in keys[:20]),
        "remove one of the edges",
        {"path": keys[:100]},
    )


def _enter(projection: Projection, context: Context, index: int, work: Work) -> None:
    blocked = sum(
        1
        for dependency in work.depends_on
        if isinstance(dependency, WorkDependency)
        and (
            (known := projection.works.get(dependency.work_id)) is None
            or known.barrier != "verified"
        )
    )
    gates = tuple(
        dependency
        for dependency in work.depends_on
        if isinstance(dependency, IssueDependency | PullRequestDependency)
    )
    _count_in_graph(projection, work, gates)
    size = len(encode_trusted(work.payload))
    _check_assignment(projection, work)
    projection.add_work(
        WorkState(
            work=work,
            place=context.place(index),
            payload_bytes=size,
            gates=gates,
            blocked=blocked,
        )
    )


def _count_in_graph(
    projection: Projection,
    work: Work,
    gates: tuple[IssueDependency | PullRequestDependency, ...],
) -> None:
    graph = projection.graphs.get(work.graph_id) or GraphState(pool=work.pool)
    if graph.pool != work.pool:
        raise _pool_mismatch(work, graph.pool)
    grown = structs.replace(
        graph,
        works=graph.works + 1,
        gates=graph.gates.union(identities.gate_identity(gate) for gate in gates)
        if gates
        else graph.gates,
    )
    limit = projection.policy.limits.graph_nodes
    if grown.nodes > limit:
        raise CallboardError(
            "graph_limit",
            f"graph {work.graph_id!r} would have {grown.nodes} nodes, at most {limit} are allowed",
            "begin another graph",
            {"count": grown.nodes, "limit": limit},
        )
    projection.journal.put(projection.graphs, work.graph_id, grown)
    counters = projection.counters
    counters.nodes += grown.nodes - graph.nodes


def _check_assignment(projection: Projection, work: Work) -> None:
    """Refuse a Work that could not be handed to a worker alone (§7.17).

    Commit ids are taken as long as writers make them, the request's as long as one may be.
    """
    limits = projection.policy.limits
    references: list[ResultReference] = []
    owed = 0
    for dependency in work.depends_on:
        if not isinstance(dependency, WorkDependency):
            continue
        known = projection.works.get(dependency.work_id)
        if known is not None and known.result is not None:
            descriptor, commit_id = known.result, str(known.result_commit_id)
        else:
            descriptor, commit_id = {}, _COMMIT_ID
            owed += limits.result_bytes
        references.append(
            ResultReference(
                work_id=dependency.work_id, result_commit_id=commit_id, descriptor=descriptor
            )
        )
    member = AssignedClaim(
        handle="h1",
        claim_id=identities.claim_id("", MAX_OPERATIONS),
        work_id=work.work_id,
        work=work.payload,
        result_refs=references,
    )
    assignment = Assignment(
        version=3,
        dispatch_id=identities.dispatch_id("", MAX_OPERATIONS),
        request_id=_REQUEST_ID,
        commit_id=_COMMIT_ID,
        policy_epoch=str(projection.policy_epoch),
        pool=work.pool,
        worker_profile=work.worker_profile,
        claims=[member],
    )
    size = len(encode_trusted(assignment)) + owed
    if size > limits.assignment_bytes:
        raise CallboardError(
            "assignment_limit",
            f"node {work.node_key!r} could need an assignment of {size} bytes, "
            f"at most {limits.assignment_bytes} are allowed",
            "shorten the payload or join fewer predecessors at once",
            {"bytes": size, "limit_bytes": limits.assignment_bytes},
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
