"""A projection's indexes, taken out whole, and counted anew from its Work, Claims and groups.

The second way knows nothing of how the first is kept; it goes by the definitions of the wire.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from callboard import canonical
from callboard.board.projection.document import state_document
from callboard.board.projection.entities import DispatchState, WorkState
from callboard.board.projection.state import Projection
from callboard.board.protocol import identities
from callboard.board.protocol.operations import WorkDependency

Index = dict[str, Any]


def document(projection: Projection) -> bytes:
    """The state document's canonical bytes, empty before genesis."""
    return b"" if projection.tip is None else canonical.encode(state_document(projection))


def kept(projection: Projection, at: int) -> Index:
    """The indexes as the projection keeps them, its frontiers looked at from `at`."""
    counters = projection.counters
    for pool in projection.pools.values():
        pool.frontier.advance(at)
    return {
        "counters": {name: getattr(counters, name) for name in counters.FIELDS},
        "reserve_bytes": projection.reserve_bytes,
        "ledger_bytes": projection.ledger_bytes,
        "ordinal": projection.ordinal,
        "open_dispatches": set(projection.open_dispatches),
        "pending_deliveries": set(projection.pending_deliveries),
        "by_place": dict(projection.by_place),
        "dependents": {key: list(ids) for key, ids in projection.dependents.items() if ids},
        "graphs": {key: (one.pool, one.works, one.gates) for key, one in projection.graphs.items()},
        "blocked": {key: state.blocked for key, state in projection.works.items()},
        "pools": {
            name: {
                "available": pool.available,
                "unsettled": pool.unsettled,
                "open_claims": pool.open_claims,
                "unreleased": pool.unreleased,
                "open_by_key": {key: n for key, n in pool.open_by_key.items() if n},
                "buckets": {
                    priority: {key: list(bucket) for key, bucket in keys.items()}
                    for priority, keys in pool.frontier.buckets.items()
                },
                "gated": set(pool.frontier.gated),
                "delayed": pool.frontier.delayed,
            }
            for name, pool in projection.pools.items()
        },
    }


def counted(projection: Projection, at: int) -> Index:
    """The same, from the definitions."""
    works = projection.works
    states = Counter(state.state for state in works.values())
    graphs = _graphs(projection)
    open_groups = {key for key, one in projection.dispatches.items() if not one.released}
    return {
        "counters": {
            "work": len(works),
            "available": states["available"],
            "claimed": states["claimed"],
            "completed": states["completed"],
            "cancelled": states["cancelled"],
            "pending_delivery": sum(one.barrier == "pending" for one in works.values()),
            "claims": len(projection.claims),
            "unreleased": len(open_groups),
            "transactions": len(projection.requests),
            "nodes": sum(works + len(gates) for _pool, works, gates in graphs.values()),
        },
        "reserve_bytes": sum(_work_reserve(projection, one) for one in works.values())
        + sum(_group_reserve(projection, one) for one in projection.dispatches.values()),
        "ledger_bytes": projection.ledger_bytes,
        "ordinal": len(projection.requests),
        "open_dispatches": open_groups,
        "pending_deliveries": {key for key, one in works.items() if one.barrier == "pending"},
        "by_place": {one.place: key for key, one in works.items()},
        "dependents": _dependents(projection),
        "graphs": graphs,
        "blocked": {key: _blocked(projection, state) for key, state in works.items()},
        "pools": {name: _pool(projection, name, at) for name in projection.policy.pools},
    }


def _predecessors(state: WorkState) -> list[str]:
    return [one.work_id for one in state.work.depends_on if isinstance(one, WorkDependency)]


def _blocked(projection: Projection, state: WorkState) -> int:
    return sum(projection.works[one].barrier != "verified" for one in _predecessors(state))


def _dependents(projection: Projection) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for state in sorted(projection.works.values(), key=lambda one: one.place):
        for predecessor in _predecessors(state):
            found.setdefault(predecessor, []).append(state.work.work_id)
    return found


def _graphs(projection: Projection) -> dict[str, tuple[str, int, frozenset[str]]]:
    found: dict[str, tuple[str, int, frozenset[str]]] = {}
    for state in projection.works.values():
        graph = state.work.graph_id
        _pool, count, gates = found.get(graph, ("", 0, frozenset[str]()))
        more = {identities.gate_identity(gate) for gate in state.gates}
        found[graph] = (state.work.pool, count + 1, gates | more)
    return found


def _work_reserve(projection: Projection, state: WorkState) -> int:
    limits = projection.policy.limits
    delivery = 2 * limits.result_bytes + 2 * limits.evidence_bytes + 8192
    if state.state == "completed":
        return delivery if state.barrier == "pending" else 0
    if state.state == "cancelled":
        return 0
    left = projection.policy.pools[state.work.pool].retry.max_attempts - state.attempts
    claimed = 8192 if state.state == "claimed" else 0
    return left * (4 * limits.evidence_bytes + 8192) + delivery + claimed


def _group_reserve(projection: Projection, group: DispatchState) -> int:
    if group.released:
        return 0
    evidence = 2 * projection.policy.limits.evidence_bytes
    bounds = projection.policy.pools[group.assignment.pool].reconciliation
    left = max(0, bounds.max_attempts + 4 - group.lifecycle_writes)
    return left * (evidence + 12_288) + evidence + 8192


def _pool(projection: Projection, name: str, at: int) -> Index:
    works = [one for one in projection.works.values() if one.work.pool == name]
    routes = projection.pools[name].routes
    ready = [
        one
        for one in works
        if one.state == "available"
        and not _blocked(projection, one)
        and one.lane.obstacle(routes[one.work.worker_profile]) is None
    ]
    plain = [one for one in ready if not one.gates]
    buckets: dict[int, dict[str, list[int]]] = {}
    for state in sorted(plain, key=lambda one: one.place):
        if state.retry_not_before <= at:
            keys = buckets.setdefault(state.priority, {})
            keys.setdefault(state.work.fairness_key, []).append(state.place)
    open_claims = [
        projection.works[one.claim.work_id].work
        for one in projection.claims.values()
        if one.state == "open"
    ]
    own = [work for work in open_claims if work.pool == name]
    groups = [one for one in projection.dispatches.values() if one.assignment.pool == name]
    return {
        "available": sum(one.state == "available" for one in works),
        "unsettled": sum(
            one.state in ("available", "claimed") or one.barrier == "pending" for one in works
        ),
        "open_claims": len(own),
        "unreleased": sum(not one.released for one in groups),
        "open_by_key": dict(Counter(work.fairness_key for work in own)),
        "buckets": buckets,
        "gated": {one.place for one in ready if one.gates},
        "delayed": sum(one.retry_not_before > at for one in plain),
    }
