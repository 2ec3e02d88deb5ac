"""What a remediation verifier is asked: a failed delivery as the board and Git have it.

Source: specification 1, §7.15. Facts only, read anew and without effect; the proposed payload
stands beside the old one, so that an answer is an answer about this replacement and no other.
"""

from __future__ import annotations

from typing import Any

import msgspec

from callboard.board.execution.carriage import Carriage
from callboard.board.execution.remembering import memory_of
from callboard.board.execution.site import Site
from callboard.board.outputs.authority import Place
from callboard.board.outputs.delivery import Delivery, verify_delivery
from callboard.board.outputs.descriptor import as_payload
from callboard.board.outputs.prepared import read_prepared
from callboard.board.projection.entities import WorkState
from callboard.board.publishing.replacement import Wish, inherited
from callboard.errors import CallboardError

Inquiry = dict[str, Any]


def inquiry(site: Site, old: WorkState, wish: Wish) -> Inquiry:
    """The question about replacing `old`; see the reference page on verifiers for its fields.

    Raises `CallboardError` where the repository or the board's remote cannot be read.
    """
    projection = site.publisher.known().projection
    claim = projection.claims[str(old.claim_id)]
    dispatch = projection.dispatches[claim.claim.dispatch_id]
    Carriage(site).bring_outputs(str(old.claim_id))
    place = Place(
        site.repository,
        str(old.claim_id),
        old.work.work_id,
        old.attempts,
        dispatch.profile.ref,
        memory=memory_of(site, dispatch, old.work.payload),
    )
    delivery = verify_delivery(place, old.work.payload)
    return {
        "version": 1,
        "board": {"repository": projection.repository, "branch": site.branch},
        "work": msgspec.to_builtins(old.work),
        "claim": msgspec.to_builtins(claim.claim),
        "run": None if dispatch.run is None else msgspec.to_builtins(dispatch.run),
        "profile": msgspec.to_builtins(dispatch.profile),
        "failure": {
            "reason": old.failure_reason,
            "disposition": old.disposition,
            "commit_id": old.failure_commit_id,
            "completion_id": old.completion_id,
            "completed_at": old.completed_at,
        },
        "outputs": _outputs(site, str(old.claim_id), delivery),
        "proposed": {
            "graph_id": wish.graph or old.work.graph_id,
            "node_key": wish.key,
            "after": None if wish.after is None else list(wish.after),
            "payload": inherited(wish.payload, old.work.payload),
        },
    }


def _outputs(site: Site, claim_id: str, delivery: Delivery) -> Inquiry:
    """What was to be delivered, as its note says, and what of that reads back."""
    try:
        prepared = read_prepared(site.repository, claim_id)
    except CallboardError:
        # A note that cannot be read is among what `missing` lists.
        prepared = None
    return {
        "prepared": None if prepared is None else as_payload(prepared)["outputs"],
        "found": delivery.descriptor["outputs"],
        "missing": [{"code": one.code, "message": one.message} for one in delivery.missing],
    }
