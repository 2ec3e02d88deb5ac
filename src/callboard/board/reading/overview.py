"""The whole board on one page: columns, shares, who is next and why.

Source: specification 1, §§0, 7.13. A preview by the planner itself; granting decides anew.
"""

from __future__ import annotations

from callboard.board.reading.advice import RECONCILE
from callboard.board.reading.columns import COLUMNS, Columns
from callboard.board.reading.detail import placed_document
from callboard.board.reading.in_flight import InFlight
from callboard.board.reading.pauses import pauses
from callboard.board.reading.planning import line
from callboard.board.reading.shares import shares
from callboard.board.reading.view import Document, View
from callboard.board.scheduling.competition import Competition, Stop

NEXT = 3


def overview(view: View, *, limit: int) -> Document:
    """`status`: counts of all columns, at most `limit` Work of each, shares and the next three."""
    projection = view.projection
    if projection.tip is None:
        empty = {column: {"count": 0, "works": []} for column in COLUMNS}
        return {
            **view.stamp(),
            "repository": None,
            "columns": empty,
            "shares": [],
            "next": [],
            "kept_places": {"count": 0, "runs": []},
        }
    columns = Columns(view)
    placed = columns.all()
    return {
        **view.stamp(),
        "repository": projection.repository,
        "policy_epoch": projection.policy_epoch,
        "paused": {
            "admission": projection.admission_paused,
            "grants": projection.grants_paused,
        },
        "pauses": pauses(view),
        "columns": {
            column: {
                "count": len(placed[column]),
                "works": [placed_document(columns, one) for one in placed[column][:limit]],
            }
            for column in COLUMNS
        },
        "kept_places": _kept_places(view, limit),
        "pools": [_load(view, name) for name in sorted(projection.policy.pools)],
        "shares": shares(view),
        "next": [_next(columns, view, name) for name in sorted(projection.policy.pools)],
    }


def _kept_places(view: View, limit: int) -> Document:
    """Launches that keep a place although no Claim of theirs is open and one was cancelled."""
    projection = view.projection
    in_flight = InFlight(view)
    found = []
    for dispatch_id in projection.open_dispatches:
        state = projection.dispatches[dispatch_id]
        claims = [projection.claims[one.claim_id] for one in state.assignment.claims]
        if state.open_claims == 0 and any(one.state == "cancelled" for one in claims):
            step = (
                f"callboard stop --dispatch {dispatch_id}" if state.run is not None else RECONCILE
            )
            found.append({**in_flight.group(state), "next": step})
    found.sort(key=lambda one: (one["since_ms"], one["dispatch_id"]))
    return {"count": len(found), "runs": found[:limit]}


def _load(view: View, pool: str) -> Document:
    counts = view.projection.pool_state(pool)
    policy = view.projection.pool(pool)
    return {
        "pool": pool,
        "open_claims": counts.open_claims,
        "logical_limit": policy.logical_limit,
        "unreleased_dispatches": counts.unreleased,
        "native_limit": policy.native_limit,
    }


def _next(columns: Columns, view: View, pool: str) -> Document:
    """The next three in line, and what a grant asked for now would say.

    `reason` is `selected` where one could be granted now; the line is shown even where a pause or
    a full pool lets nobody go.
    """
    present = Competition(view.projection, pool, view.at_ms).next()
    found: Document = {"pool": pool, "reason": "selected", "works": []}
    if isinstance(present, Stop):
        found["reason"] = present.reason
        if present.limit is not None:
            found["limit"] = present.limit
    for winner in line(view, pool, NEXT):
        work = winner.state.work
        found["works"].append(
            {
                "name": columns.names.label(work.work_id),
                "work_id": work.work_id,
                "priority": winner.priority,
                "fairness_key": work.fairness_key,
                "basis": list(winner.basis),
            }
        )
    return found
