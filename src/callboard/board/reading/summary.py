"""Summaries: what some requests or launches asked for, got and came to, Claim by Claim.

Source: specification 1, §§7.12, 7.13, 7.14 (mixed outcomes). Every count is of the ledger's facts
at the view's tip, and always the same for the same view. Lists are bounded and say what they leave
out. A summary is told, never acted upon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from callboard.board.projection.entities import (
    BINDING_CONFLICT,
    ClaimState,
    DispatchState,
    RequestState,
)
from callboard.board.projection.state import Projection
from callboard.board.reading.attempts import attempts_by_work
from callboard.board.reading.names import Names, find_dispatch
from callboard.board.reading.receipts import launch_word, node_documents, request_of
from callboard.board.reading.stages import claim_stage
from callboard.board.reading.view import Document, View, known
from callboard.errors import CallboardError

MAX_ROWS = 100
MAX_OUTPUTS = 16
COUNTS = (
    "submitted",
    "requested",
    "granted",
    "launched",
    "completed",
    "verified",
    "pending",
    "failed",
    "cancelled",
    "open",
)
"""What is counted: nodes posted, Claims asked for and granted, and what became of these."""

_DOUBTS = (BINDING_CONFLICT, "launch_unresolved", "launch_uncertain", "launch_rejected")
# What asks for a look is listed rather than what went well, where not all of it can be.
_FIRST_LISTED = ("failed", "cancelled", "open", "pending", "verified")
_OUTPUT_NAMES = ("name", "branch", "path", "request_id", "ref", "reason")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a summary is of: requests, and launches by themselves; each once, in causal order."""

    requests: tuple[RequestState, ...] = ()
    dispatches: tuple[DispatchState, ...] = ()


def subject_of(projection: Projection, words: Iterable[str]) -> Subject:
    """What people name: request ids, dispatch ids or starts of them, run ids of bound runs.

    Raises `summary_subject_unknown`, or `selector_ambiguous` for the start of several dispatches.
    """
    requests: dict[str, RequestState] = {}
    dispatches: dict[str, DispatchState] = {}
    for word in words:
        if word in projection.requests:
            requests[word] = request_of(projection, word)
        elif word in projection.runs:
            dispatches[projection.runs[word]] = projection.dispatches[projection.runs[word]]
        else:
            found = _dispatch(projection, word)
            dispatches[found.assignment.dispatch_id] = found
    return Subject(tuple(requests.values()), tuple(dispatches.values()))


def _dispatch(projection: Projection, word: str) -> DispatchState:
    try:
        return find_dispatch(projection, word)
    except CallboardError as error:
        if error.code != "dispatch_unknown":
            raise
        raise CallboardError(
            "summary_subject_unknown",
            f"the board has no request, dispatch or bound run {word[:80]!r}",
            "requests are listed by: callboard ledger log; dispatches and runs by: callboard show "
            "NODE",
        ) from error


def since(projection: Projection, commit_id: str | None) -> Subject:
    """Everything asked for after a commit of the chain; all there is where none is given.

    Raises `commit_unknown`.
    """
    first = 0
    if commit_id is not None:
        if commit_id not in projection.commit_ids:
            raise CallboardError(
                "commit_unknown",
                f"the board has no commit {commit_id[:80]!r}",
                "list them: callboard ledger log",
            )
        first = projection.commit_ids[commit_id] + 1
    found = (one for one in projection.requests.values() if _is_wish(one))
    return Subject(tuple(one for one in found if projection.commit_ids[one.id] >= first))


def _is_wish(request: RequestState) -> bool:
    """Whether it asked for turns or brought Work, rather than recorded what became of them."""
    return request.dispatch_parameters is not None or bool(request.works)


def summarize(view: View, subject: Subject, *, limit: int = MAX_ROWS) -> Document:
    """The summary: `{status, counts…, rows, launches, requests, nodes, left_out}` with the stamp.

    Each of the lists has at most `limit` entries. A launch that is named by itself counts with its
    own Claims, and with its request as what was asked for.
    """
    projection = view.projection
    requests = _requests(projection, subject)
    claims = _claims(projection, subject)
    dispatches = {
        one.claim.dispatch_id: projection.dispatches[one.claim.dispatch_id] for one in claims
    }
    counts = _counts(projection, requests, claims)
    listed = _listed(projection, claims, limit)
    rows = _Rows(view)
    launches = list(dict.fromkeys(one.claim.dispatch_id for one in listed))
    posted = [work_id for request in requests for work_id in request.works]
    return {
        **view.stamp(),
        "status": _status(dispatches.values(), counts),
        **counts,
        "rows": [rows.row(one) for one in listed],
        "launches": [_launch(dispatches[one]) for one in launches],
        "requests": [_request(one) for one in requests[:limit]],
        "nodes": node_documents(view, posted[:limit]) if posted else [],
        "left_out": {
            "rows": len(claims) - len(listed),
            "launches": len(dispatches) - len(launches),
            "requests": max(0, len(requests) - limit),
            "nodes": max(0, len(posted) - limit),
        },
    }


def _requests(projection: Projection, subject: Subject) -> list[RequestState]:
    """The requests, and those that the launches came of."""
    found = {one.request_id: one for one in subject.requests}
    for dispatch in subject.dispatches:
        request_id = dispatch.assignment.request_id
        found.setdefault(request_id, projection.requests[request_id])
    return sorted(found.values(), key=lambda one: projection.commit_ids[one.id])


def _claims(projection: Projection, subject: Subject) -> list[ClaimState]:
    """The Claims of all of them, each once, in the order of their grants."""
    found = {claim_id for request in subject.requests for claim_id in request.claims}
    for dispatch in subject.dispatches:
        found |= {one.claim_id for one in dispatch.assignment.claims}
    return [claim for claim_id, claim in projection.claims.items() if claim_id in found]


def _counts(
    projection: Projection, requests: Sequence[RequestState], claims: Sequence[ClaimState]
) -> dict[str, int]:
    asked = [one.dispatch_parameters for one in requests if one.dispatch_parameters is not None]
    states = Counter(one.state for one in claims)
    deliveries = Counter(_delivery(projection, one) for one in claims)
    bound = [projection.dispatches[one.claim.dispatch_id].run is not None for one in claims]
    found = {
        "submitted": sum(len(one.works) for one in requests),
        "requested": sum(one.max_claims for one in asked),
        "granted": len(claims),
        "launched": sum(bound),
        "completed": states["completed"],
        "verified": deliveries["verified"],
        "pending": deliveries["pending"],
        "failed": deliveries["failed"],
        "cancelled": states["cancelled"],
        "open": states["open"],
    }
    assert tuple(found) == COUNTS
    return found


def _delivery(projection: Projection, claim: ClaimState) -> str:
    """What became of a Claim's outputs; `none` where it was not completed."""
    if claim.state != "completed":
        return "none"
    return projection.works[claim.claim.work_id].barrier


def _status(dispatches: Iterable[DispatchState], counts: dict[str, int]) -> str:
    """One word for all of it, the worst first: what is in doubt or failed hides behind nothing."""
    words = {launch_word(one) for one in dispatches}
    for doubt in _DOUBTS:
        if doubt in words:
            return doubt
    if counts["failed"]:
        return "delivery_failed"
    if counts["open"]:
        return "in_progress"
    if counts["pending"]:
        return "delivery_pending"
    if counts["granted"]:
        if not counts["cancelled"]:
            return "completed"
        return "completed_with_cancellations" if counts["completed"] else "cancelled"
    return "submitted" if counts["submitted"] else "nothing"


def _listed(projection: Projection, claims: list[ClaimState], limit: int) -> list[ClaimState]:
    if len(claims) <= limit:
        return claims

    def rank(place: int) -> tuple[int, int]:
        claim = claims[place]
        word = _delivery(projection, claim) if claim.state == "completed" else claim.state
        return _FIRST_LISTED.index(word), place

    return [claims[place] for place in sorted(sorted(range(len(claims)), key=rank)[:limit])]


class _Rows:
    """Makes the rows of one view."""

    def __init__(self, view: View) -> None:
        self._projection = view.projection
        self._names = Names(view.projection)
        self._attempts = {
            one.claim.claim_id: number
            for claims in attempts_by_work(view.projection).values()
            for number, one in enumerate(claims, start=1)
        }

    def row(self, claim: ClaimState) -> Document:
        """One Claim: whose it is, how it ended, what was delivered."""
        record, projection = claim.claim, self._projection
        state = projection.works[record.work_id]
        delivery = _delivery(projection, claim)
        outputs = _outputs(state.result) if delivery == "verified" else []
        dispatch = projection.dispatches[record.dispatch_id]
        failure = state.failure_reason if delivery == "failed" else None
        return {
            "name": self._names.label(record.work_id),
            "work_ref": record.work_id,
            "graph_id": state.work.graph_id,
            "node_key": state.work.node_key,
            "pool": state.work.pool,
            "fairness_key": state.work.fairness_key,
            "claim_ref": record.claim_id,
            "handle": record.handle,
            "dispatch_id": record.dispatch_id,
            "attempt": self._attempts[record.claim_id],
            "outcome": claim.state,
            "delivery": delivery,
            "stage": claim_stage(projection, claim),
            "outputs": outputs[:MAX_OUTPUTS],
            "outputs_left_out": max(0, len(outputs) - MAX_OUTPUTS),
            **known(
                reason=failure or claim.cancellation_reason,
                run_id=None if dispatch.run is None else dispatch.run.run_id,
            ),
        }


def _outputs(result: Any) -> list[Document]:
    """`{type, name}` of each output that a Result names, whoever wrote it."""
    outputs = result.get("outputs") if isinstance(result, dict) else None
    return [
        known(type=_text(one, ("type",)), name=_text(one, _OUTPUT_NAMES))
        for one in (outputs if isinstance(outputs, list) else ())
        if isinstance(one, dict)
    ]


def _text(found: Document, names: Iterable[str]) -> str | None:
    return next((text for name in names if isinstance(text := found.get(name), str)), None)


def _launch(state: DispatchState) -> Document:
    assignment = state.assignment
    return {
        "dispatch_id": assignment.dispatch_id,
        "pool": assignment.pool,
        "worker_profile": assignment.worker_profile,
        "status": launch_word(state),
        "claims": len(assignment.claims),
        "run_id": None if state.run is None else state.run.run_id,
        **known(reason=state.reason, conclusion=state.conclusion),
    }


def _request(request: RequestState) -> Document:
    asked = request.dispatch_parameters
    return {
        "request_id": request.request_id,
        "kind": request.kind,
        "commit_id": request.id,
        "at": request.at,
        "role": request.actor.role,
        "principal": request.actor.principal,
        **known(
            pool=None if asked is None else asked.pool,
            requested=None if asked is None else asked.max_claims,
            granted=None if asked is None else len(request.claims),
            submitted=len(request.works) or None,
        ),
    }
