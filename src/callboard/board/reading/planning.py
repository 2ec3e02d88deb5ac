"""What the planner answers for a pool at a time, as a document.

Source: specification 1, §§7.3, 7.5; wire-v3 §6. A preview: it grants nothing and moves no clock.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from callboard.board.protocol import identities
from callboard.board.reading.view import Document, View, known
from callboard.board.scheduling.competition import Competition, Stop, Winner
from callboard.board.scheduling.packing import BatchRequest, plan_batch


def next_document(view: View, pool: str) -> Document:
    """The next winner: `{work_id, node_key, reason, basis, observations, class_pass, key_pass}`.

    Passes are decimal strings, `class_pass` None under strict priority; without a winner
    `work_id` is None and `reason` says why, with `limit` where one was hit.
    """
    winner = Competition(view.projection, pool, view.at_ms).next()
    if isinstance(winner, Stop):
        return {
            "work_id": None,
            "node_key": None,
            "reason": winner.reason,
            "basis": [],
            "observations": [],
            "class_pass": None,
            "key_pass": None,
            **known(limit=winner.limit),
        }
    return {
        "work_id": winner.state.work.work_id,
        "node_key": winner.state.work.node_key,
        "reason": "selected",
        "basis": list(winner.basis),
        "observations": winner.observations,
        "class_pass": None if winner.class_pass is None else str(winner.class_pass),
        "key_pass": str(winner.key_pass),
    }


def line(view: View, pool: str, most: int) -> Iterator[Winner]:
    """At most `most` winners in the order in which the planner would let them go.

    Whom a pause or a full pool holds back stands in line all the same.
    """
    competition = Competition(view.projection, pool, view.at_ms, preview=True)
    for _turn in range(most):
        winner = competition.next()
        if isinstance(winner, Stop):
            return
        yield winner
        competition.serve(winner)


def batch_document(
    view: View,
    pool: str,
    *,
    max_claims: int,
    max_dispatches: int,
    max_bytes: int,
    request_id: str,
) -> Document:
    """The whole fair prefix of a request: `{reason, operations, assignments, limit?}`."""
    plan = plan_batch(
        view.projection,
        BatchRequest(
            pool=pool,
            max_claims=max_claims,
            max_dispatches=max_dispatches,
            max_bytes=max_bytes,
            request_id=request_id,
            commit_id=identities.commit_id(view.projection.tip, request_id),
        ),
        view.at_ms,
    )
    return {
        "reason": plan.stop.reason,
        "operations": msgspec.to_builtins(plan.claims),
        "assignments": msgspec.to_builtins(plan.assignments),
        **known(limit=plan.stop.limit),
    }
