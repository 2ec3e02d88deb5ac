"""What a parent thinks of its child's outcome: recorded apart from it, once, by who may.

Source: specification 3 (a child that has ended is ready for review, never accepted by itself);
layers.md §§3, 4.
"""

from __future__ import annotations

from callboard.errors import CallboardError
from callboard.layers import journal, names, references, stored
from callboard.layers.around import Around
from callboard.layers.assigned import Assigned
from callboard.layers.records import base
from callboard.layers.records.events import ChildJudged
from callboard.layers.records.outcomes import (
    ChildOutcome,
    Decision,
    EvidenceRef,
    ParentAcceptance,
)
from callboard.layers.tree import Layer
from callboard.layers.unwinding import OUTCOMES

FOLDER = "parent_acceptance"
MAX_EVIDENCE_BYTES = 64 * 1024 * 1024


def accept(
    around: Around,
    layer: Layer,
    request_id: str,
    decision: Decision,
    rationale: str,
    evidence: tuple[str, ...],
    *,
    superseding_request_id: str | None = None,
    open_points: tuple[str, ...] = (),
    assigned: Assigned | None = None,
) -> ParentAcceptance:
    """Record the judgement of a request's outcome; `assigned` None: the user's own.

    Raises `outcome_missing`, `role_not_allowed`, `acceptance_unfounded` (an acceptance that names
    no evidence), `acceptance_exists` (one that says something else stands already).
    """
    if assigned is not None:
        assigned.check_role(assigned.contract.acceptance_roles, "judge what a child came to")
    names.check_key(request_id, "request id")
    outcome, outcome_sha256 = _outcome(around, layer, request_id)
    if decision == "accepted" and not evidence:
        raise _unfounded(request_id)
    value = {
        "schema_version": 1,
        "request_id": request_id,
        "work_item_id": outcome.work_item_id,
        "decision": decision,
        "rationale": rationale,
        "evidence_reviewed": [
            {"ref": ref, "sha256": _digest(around, layer, ref)} for ref in evidence
        ],
        "outcome_sha256": outcome_sha256,
        "superseding_request_id": superseding_request_id,
        "open_points": list(open_points),
        "decided_by": "user" if assigned is None else assigned.attempt_id,
        "decided_at_ms": around.clock.now_ms(),
    }
    return _published(around, layer, base.convert(value, ParentAcceptance, "the acceptance"))


def _unfounded(request_id: str) -> CallboardError:
    return CallboardError(
        "acceptance_unfounded",
        f"the outcome of {request_id!r} is accepted without evidence",
        "name the evidence that was reviewed by its references",
        {"request": request_id},
    )


def _published(around: Around, layer: Layer, judgement: ParentAcceptance) -> ParentAcceptance:
    """The judgement that stands: this one, or one that said the same before."""
    own = layer.file(FOLDER, f"{judgement.request_id}.json")
    if not around.disk.publish_new(own, base.encode(judgement)):
        return _standing(around, own, judgement)
    journal.tell(
        around, layer, ChildJudged,
        request_id=judgement.request_id, decision=judgement.decision,
        decided_by=judgement.decided_by,
    )  # fmt: skip
    return judgement


def _outcome(around: Around, layer: Layer, request_id: str) -> tuple[ChildOutcome, str]:
    """What is judged, and the digest of its bytes."""
    place = layer.file(OUTCOMES, f"{request_id}.json")
    if around.disk.kind(place) is None:
        raise CallboardError(
            "outcome_missing",
            f"the request {request_id!r} has no outcome in layer {layer.session.session_id}",
            "only what a child that has ended came to can be judged",
            {"request": request_id},
        )
    data = stored.read_file(around.disk, place)
    return stored.parse_record(data, ChildOutcome, place), base.digest(data)


def _standing(around: Around, place: str, wanted: ParentAcceptance) -> ParentAcceptance:
    """The judgement that stands, where it says the same; said again it changes nothing."""
    found = stored.read_record(around.disk, place, ParentAcceptance)
    if (found.decision, found.outcome_sha256) == (wanted.decision, wanted.outcome_sha256):
        return found
    raise CallboardError(
        "acceptance_exists",
        f"the outcome of {wanted.request_id!r} was judged {found.decision} by {found.decided_by}",
        "a judgement stands; ask for rework by a superseding request",
        {"request": wanted.request_id, "decision": found.decision},
    )


def _digest(around: Around, layer: Layer, ref: str) -> str:
    return base.digest(references.read_ref(around.disk, layer, ref, MAX_EVIDENCE_BYTES))


__all__ = ["FOLDER", "EvidenceRef", "accept"]
