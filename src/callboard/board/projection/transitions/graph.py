"""A Work's place in its graph: what it points at, that nothing waits for itself, how much there is.

Source: specification 1, §7.16; wire-v3 §§6, 7. A graph stays in one pool and under one limit.
"""

from __future__ import annotations

from msgspec import structs

from callboard.board.projection.entities import GraphState
from callboard.board.projection.state import Projection
from callboard.board.protocol import identities
from callboard.board.protocol.operations import Gate, Work
from callboard.errors import CallboardError


def check_references(projection: Projection, new: dict[str, Work]) -> None:
    """Refuse a predecessor that stands neither in the same graph nor among the `new` Work."""
    for work in new.values():
        graph = projection.graphs.get(work.graph_id)
        if graph is not None and graph.pool != work.pool:
            raise _pool_mismatch(work, graph.pool)
        for work_id in work.predecessors:
            _check_predecessor(projection, new, work, work_id)


def _check_predecessor(
    projection: Projection, new: dict[str, Work], work: Work, work_id: str
) -> None:
    if work_id == work.work_id:
        raise CallboardError(
            "dependency_self",
            f"node {work.node_key!r} depends on itself",
            "remove the edge",
            {"node_key": work.node_key},
        )
    known = new.get(work_id)
    if known is None and work_id in projection.works:
        known = projection.works[work_id].work
    if known is None or known.graph_id != work.graph_id:
        raise CallboardError(
            "dependency_missing",
            f"node {work.node_key!r} depends on {work_id}, which is neither "
            f"in graph {work.graph_id!r} nor in this submission",
            "submit the predecessor in the same request or earlier",
            {"node_key": work.node_key, "work_id": work_id},
        )


def _pool_mismatch(work: Work, pool: str) -> CallboardError:
    return CallboardError(
        "graph_pool_mismatch",
        f"node {work.node_key!r} names pool {work.pool!r}, its graph {work.graph_id!r} is in "
        f"{pool!r}",
        "one graph stays in one pool",
    )


def refuse_cycle(new: dict[str, Work]) -> None:
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
            stack.extend((work_id, False) for work_id in reversed(new[node].predecessors))


def _cycle(new: dict[str, Work], path: list[str]) -> CallboardError:
    keys = [new[node].node_key for node in path]
    return CallboardError(
        "dependency_cycle",
        "these nodes wait for each other: " + " -> ".join(repr(key) for key in keys[:20]),
        "remove one of the edges",
        {"path": keys[:100]},
    )


def count_in_graph(projection: Projection, work: Work, gates: tuple[Gate, ...]) -> None:
    """Add a Work and its `gates` to its graph, whose pool and size they must keep to."""
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
