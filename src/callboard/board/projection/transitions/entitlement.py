"""What one new Work may ask for: its profile, its rights, its gates, what it replaces.

Source: specification 1, §§7.2, 7.10, 7.15, 7.16; wire-v3 §§5, 6. It judges one Work against the
policy and the board; its place among others is `graph`'s to judge.
"""

from __future__ import annotations

from msgspec import UNSET

from callboard.board.projection.routes import Lane, Route, admitted
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import claim_of
from callboard.board.projection.transitions.evidence import ALL_SOURCES, check_evidence
from callboard.board.protocol.operations import Actor, Work
from callboard.board.protocol.policy import Pool
from callboard.board.protocol.rules import work_faults
from callboard.errors import CallboardError
from callboard.validate import refuse

_MAX_LISTED = 5
_REMEDY_KINDS = frozenset({"delivery", "reconciliation"})


def check_work(projection: Projection, actor: Actor, work: Work) -> Lane:
    """Judge the fields, profile, rights, gates and lineage of one new Work of `actor`.

    Answers the lane that it is promised, frozen from now on (§7.10).
    """
    faults = work_faults(work)
    if faults:
        raise refuse("work_invalid", f"node {work.node_key!r}", faults, "correct the node")
    pool = projection.pool(work.pool)
    route = projection.pool_state(work.pool).routes.get(work.worker_profile)
    if route is None:
        raise CallboardError(
            "profile_unknown",
            f"pool {work.pool!r} has no worker profile {work.worker_profile!r}",
            "profiles: " + ", ".join(sorted(pool.profiles)),
            {"node_key": work.node_key},
        )
    profile = route.head.profile
    if work.batch_trust_domain != profile.trust_domain:
        raise CallboardError(
            "trust_domain_mismatch",
            f"node {work.node_key!r} has trust domain {work.batch_trust_domain!r}, its profile "
            f"{profile.trust_domain!r}",
            "the policy resolves the trust domain; leave it out",
        )
    lane = _lane(work, route)
    _check_entitlement(projection, actor, work)
    _check_gates(pool, work)
    _check_replacement(projection, work)
    return lane


def _lane(work: Work, route: Route) -> Lane:
    """A pin must name a registered revision, a stated contract be that revision's (§7.10)."""
    pin = None if work.execution_ref is UNSET else work.execution_ref
    revision = route.head if pin is None else route.revisions.get(pin)
    if revision is None:
        raise _mismatch(work, "execution_ref", pin, "the revisions " + _listed(route))
    stated = work.logical_contract
    if stated is not UNSET and stated != revision.contract:
        raise _mismatch(work, "logical_contract", stated, revision.contract or "none")
    return admitted(work.worker_profile, revision, pin)


def _listed(route: Route) -> str:
    refs = [route.current, *(ref for ref in sorted(route.revisions) if ref != route.current)]
    return ", ".join(refs[:_MAX_LISTED]) + (" and more" if len(refs) > _MAX_LISTED else "")


def _mismatch(work: Work, name: str, stated: object, approved: str) -> CallboardError:
    return CallboardError(
        "profile_mismatch",
        f"node {work.node_key!r} states {name} {stated}, its profile has {approved}",
        "leave it out, or use the approved value",
        {"node_key": work.node_key},
    )


def _check_entitlement(projection: Projection, actor: Actor, work: Work) -> None:
    policy = projection.policy
    if actor.role == "worker":
        check_inherits(_worker_parent(projection, actor), work)
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


def check_inherits(parent: Work, work: Work) -> None:
    """A worker's children keep its Work's pool and key and gain no better priority (§7.2)."""
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
    for gate in work.gates:
        resource = gate.resource
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
    check_evidence(projection, dispatch, evidence, _REMEDY_KINDS, ALL_SOURCES)
