"""Whether a strict cutover is complete: nothing of an old revision of a campaign can act any more.

Source: specification 1, §7.18. A revision is a graph, or the nodes of one whose keys begin alike;
the board keeps no other notion of it. This only looks, and what it finds frees nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from unicodedata import normalize

from callboard.board.projection.entities import WorkState
from callboard.board.projection.state import Projection
from callboard.board.reading.columns import Columns
from callboard.board.reading.in_flight import InFlight
from callboard.board.reading.pauses import Pause, pauses
from callboard.board.reading.view import Document, View
from callboard.errors import CallboardError
from callboard.validate import near, show

MAX_VIOLATIONS = 100
_MAX_NEAR = 2_000
_REASON = "superseded"


def cutover(view: View, graph: str, prefixes: Sequence[str]) -> Document:
    """What is still in the way of a cutover from the nodes of `graph` whose keys begin with one of
    `prefixes`, all of them where there is none.

    `{complete, graph, old, nodes, paused, pauses, count, unresolved, violations}`: `nodes` counts
    the old ones by stage, `violations` has at most `MAX_VIOLATIONS` of `count`. Raises
    `cutover_graph_unknown`, or `cutover_nothing_old` where a prefix means no node.
    """
    old = _old(view.projection, graph, prefixes)
    columns = Columns(view)
    found = _Violations(columns, old).all()
    projection = view.projection
    stages = Counter(columns.stage(columns.place(state)) for state in old.values())
    return {
        **view.stamp(),
        # A snapshot cannot know what there is now.
        "complete": not found and view.provenance == "live",
        "graph": graph,
        "old": list(prefixes),
        "nodes": {"count": len(old), "stages": dict(sorted(stages.items()))},
        "paused": {"admission": projection.admission_paused, "grants": projection.grants_paused},
        "pauses": pauses(view),
        "count": len(found),
        "unresolved": sum(
            one["kind"] == "reservation" and one["stage"] == "unresolved" for one in found
        ),
        "violations": found[:MAX_VIOLATIONS],
    }


def _old(projection: Projection, graph: str, prefixes: Sequence[str]) -> dict[str, WorkState]:
    """The nodes of the old revision; a prefix that means none is refused, as it would pass."""
    nodes = {
        work_id: state
        for work_id, state in projection.works.items()
        if state.work.graph_id == graph
    }
    if not nodes:
        close = near(graph, list(projection.graphs)[-_MAX_NEAR:])
        raise CallboardError(
            "cutover_graph_unknown",
            f"the board has no graph {show(graph)}{close}",
            "name the graph as its plan does; callboard show NODE --json says graph_id",
        )
    if not prefixes:
        return nodes
    keys = [state.work.node_key for state in nodes.values()]
    for prefix in prefixes:
        if not any(_begins(key, prefix) for key in keys):
            raise CallboardError(
                "cutover_nothing_old",
                f"no node of graph {show(graph)} has a key that begins with {show(prefix)}",
                f"its first node is {show(keys[0])}; capital letters count",
                {"graph": graph, "prefix": prefix, "node_count": len(keys)},
            )
    return {
        work_id: state
        for work_id, state in nodes.items()
        if any(_begins(state.work.node_key, prefix) for prefix in prefixes)
    }


def _begins(key: str, prefix: str) -> bool:
    """Also where the same letters are composed in the one and in parts in the other: what looks
    old must not be passed over."""
    if key.startswith(prefix):
        return True
    if key.isascii() and prefix.isascii():
        return False
    return normalize("NFC", key).startswith(normalize("NFC", prefix))


class _Violations:
    """Finds them, kind by kind and oldest first."""

    def __init__(self, columns: Columns, old: dict[str, WorkState]) -> None:
        self._projection = columns.view.projection
        self._old = old
        self._columns = columns
        self._in_flight = InFlight(columns.view)
        self._names = self._in_flight.names

    def all(self) -> list[Document]:
        return [
            *self._open("admission", self._projection.admission_paused),
            *self._open("grants", self._projection.grants_paused),
            *self._nodes(),
            *self._reservations(),
            *self._deliveries(),
            *self._descendants(),
        ]

    @staticmethod
    def _open(what: Pause, is_paused: bool) -> list[Document]:
        if is_paused:
            return []
        return [{"kind": f"{what}_open", "next": f"callboard pause {what} --reason cutover"}]

    def _nodes(self) -> list[Document]:
        """Old nodes that may still be granted, or are under way."""
        found = []
        for state in sorted(self._old.values(), key=lambda one: one.place):
            if state.state not in ("available", "claimed"):
                continue
            violation = self._node("node", state)
            if state.state == "claimed":
                violation["next"] = "callboard drain"
            found.append(violation)
        return found

    def _node(self, kind: str, state: WorkState) -> Document:
        work_id = state.work.work_id
        return {
            "kind": kind,
            "name": self._names.label(work_id),
            "work_id": work_id,
            "stage": self._columns.stage(self._columns.place(state)),
            "next": f"callboard cancel {self._names.typed(work_id)} --reason {_REASON}",
        }

    def _reservations(self) -> list[Document]:
        """Groups with an old member that hold a place, whatever became of the member."""
        projection = self._projection
        found = []
        for dispatch_id in projection.open_dispatches:
            state = projection.dispatches[dispatch_id]
            if any(member.work_id in self._old for member in state.assignment.claims):
                found.append({**self._in_flight.group(state), "kind": "reservation"})
        return sorted(found, key=lambda one: (one["since_ms"], one["dispatch_id"]))

    def _deliveries(self) -> list[Document]:
        """Old nodes that are completed and not decided yet."""
        pending = [one for one in self._projection.pending_deliveries if one in self._old]
        found = [self._in_flight.delivery(self._old[work_id]) for work_id in pending]
        return sorted(found, key=lambda one: (one["since_ms"], one["work_id"]))

    def _descendants(self) -> list[Document]:
        """Open nodes of no old revision that wait for an old one which will never be verified."""
        projection = self._projection
        doomed = [
            work_id
            for work_id, state in self._old.items()
            if state.state == "cancelled" or state.barrier == "failed"
        ]
        cause = {work_id: work_id for work_id in doomed}
        for work_id in doomed:
            for dependent in projection.dependents.get(work_id, ()):
                if dependent not in cause:
                    cause[dependent] = cause[work_id]
                    doomed.append(dependent)
        found = [
            (projection.works[work_id], origin)
            for work_id, origin in cause.items()
            if work_id not in self._old and not projection.works[work_id].is_settled
        ]
        return [
            {**self._node("descendant", state), "cause": self._names.label(origin)}
            for state, origin in sorted(found, key=lambda one: one[0].place)
        ]
