"""One Work in full: its record, where it stands, what it waits for, what was tried, who waits.

Source: specification 1, §§7.13, 7.15: state and readiness apart, unresolved edges, and the path to
whatever blocks, in node keys.
"""

from __future__ import annotations

from callboard.board.projection.document import work_document
from callboard.board.projection.entities import WorkState
from callboard.board.projection.state import Projection
from callboard.board.protocol.operations import Replacement, WorkDependency
from callboard.board.reading.attempts import attempts_by_work, claim_document
from callboard.board.reading.columns import Columns, Placed
from callboard.board.reading.evidence import record_of
from callboard.board.reading.view import Document, View, known
from callboard.board.scheduling.competition import Competition, Stop

MAX_DEPENDENTS = 100
MAX_AHEAD = 500


def placed_document(columns: Columns, placed: Placed) -> Document:
    """A Work as the board lists it."""
    work = placed.state.work
    found: Document = {
        "name": columns.names.label(work.work_id),
        "work_id": work.work_id,
        "graph_id": work.graph_id,
        "node_key": work.node_key,
        "pool": work.pool,
        "priority": placed.state.priority,
        "fairness_key": work.fairness_key,
        "column": placed.column,
        "stage": columns.stage(placed),
        "reason": placed.reason,
        "attempts": placed.state.attempts,
    }
    if placed.since_ms is not None:
        found["since_ms"] = placed.since_ms
    evidence = known(**placed.evidence)
    if placed.column == "stuck" and (record := record_of(columns.view, placed.state)):
        evidence["record"] = record
    if evidence:
        found["evidence"] = evidence
    if placed.next is not None:
        found["next"] = placed.next
    return found


def detail(view: View, state: WorkState) -> Document:
    """`show`: everything the board knows of one Work."""
    columns = Columns(view)
    projection = view.projection
    work_id = state.work.work_id
    dependents = projection.dependents.get(work_id, [])
    claims = attempts_by_work(projection).get(work_id, [])
    return {
        **view.stamp(),
        **placed_document(columns, columns.place(state)),
        "obstacles": obstacles(columns, work_id),
        "typed": columns.names.typed(work_id),
        "work": work_document(state),
        "barrier": state.barrier,
        **lineage(columns, state),
        "predecessors": [_edge(columns, projection, one) for one in _predecessors(state)],
        "gates": len(state.gates),
        "successors": [_edge(columns, projection, one) for one in dependents[:MAX_DEPENDENTS]],
        "successor_count": len(dependents),
        "claims": [
            {"attempt": number, **claim_document(projection, claim)}
            for number, claim in enumerate(claims, start=1)
        ],
    }


def why(view: View, state: WorkState) -> Document:
    """`explain NODE`: every obstacle; for ready Work, the grants that come before its own."""
    columns = Columns(view)
    found = {
        **view.stamp(),
        **placed_document(columns, columns.place(state)),
        "typed": columns.names.typed(state.work.work_id),
        "state": state.state,
        "barrier": state.barrier,
        "obstacles": obstacles(columns, state.work.work_id),
        **lineage(columns, state),
    }
    if found["column"] == "ready":
        found["line"] = _line(columns, view, state)
    return found


def lineage(columns: Columns, state: WorkState) -> Document:
    """What a Work replaces, and of a failed one what replaces it and what waits for it in vain."""
    work = state.work
    found: Document = {}
    if isinstance(work.replacement_of, Replacement):
        found["replaces"] = _replaces(columns, work.replacement_of)
    if state.barrier != "failed":
        return found
    if (stand_in := columns.lineage.replacement(work.work_id)) is not None:
        found["replaced_by"] = _stand_in(columns, stand_in)
    blocked = columns.lineage.blocked(work.work_id)
    if blocked:
        found["blocked"] = [
            _stand_in(columns, one) for one in map(columns.work, blocked[:MAX_DEPENDENTS])
        ]
        found["blocked_count"] = len(blocked)
    return found


def _replaces(columns: Columns, origin: Replacement) -> Document:
    old = columns.work(origin.work_id)
    receipt = origin.evidence.receipt
    return {
        "name": columns.names.label(origin.work_id),
        "work_id": origin.work_id,
        "disposition": origin.disposition,
        **known(
            failure=old.failure_reason,
            effects=old.disposition,
            receipt=receipt if isinstance(receipt, str) else None,
        ),
    }


def _stand_in(columns: Columns, state: WorkState) -> Document:
    placed = columns.place(state)
    return {
        "name": columns.names.label(state.work.work_id),
        "typed": columns.names.typed(state.work.work_id),
        "work_id": state.work.work_id,
        "column": placed.column,
        "stage": columns.stage(placed),
        "reason": placed.reason,
    }


def _predecessors(state: WorkState) -> list[str]:
    return [
        dependency.work_id
        for dependency in state.work.depends_on
        if isinstance(dependency, WorkDependency)
    ]


def _edge(columns: Columns, projection: Projection, work_id: str) -> Document:
    state = projection.works[work_id]
    placed = columns.place(state)
    return {
        "name": columns.names.label(work_id),
        "work_id": work_id,
        "column": placed.column,
        "stage": columns.stage(placed),
        "reason": placed.reason,
        "state": state.state,
        "barrier": state.barrier,
        "satisfied": state.barrier == "verified",
    }


def obstacles(columns: Columns, work_id: str) -> list[Document]:
    """Everything in a Work's way, each as facts."""
    return [
        {"reason": one.reason, **columns.facts(one)}
        for one in columns.explainer.standing(work_id).obstacles
    ]


def _line(columns: Columns, view: View, state: WorkState) -> Document:
    """The grants that the planner makes before this Work's: `{ahead, exact, next}`.

    Not exact where the planner stops first, at a limit or a pause (`stop`), or where there are
    more than `MAX_AHEAD`: then there are at least so many.
    """
    competition = Competition(view.projection, state.work.pool, view.at_ms)
    ahead: list[str] = []
    stop: Document = {}
    exact = False
    while len(ahead) < MAX_AHEAD:
        winner = competition.next()
        if isinstance(winner, Stop):
            stop = known(stop=winner.reason, limit=winner.limit)
            break
        exact = winner.state.place == state.place
        if exact:
            break
        ahead.append(columns.names.label(winner.state.work.work_id))
        competition.serve(winner)
    return {"ahead": len(ahead), "exact": exact, "next": ahead[:3], **stop}
