"""What was tried for a Work: its Claims in order, and how the launch of each stood.

Source: specification 1, §§7.4, 7.8. Facts only, as the ledger has them.
"""

from __future__ import annotations

from callboard.board.projection.entities import ClaimState, DispatchState
from callboard.board.projection.state import Projection
from callboard.board.reading.stages import claim_stage
from callboard.board.reading.view import Document, known

LAUNCH_STATUS = {
    "reserved": "reserved",
    "started": "started",
    "bound": "bound",
    "rejected": "launch_rejected",
    "uncertain": "launch_uncertain",
    "unresolved": "launch_unresolved",
}


def attempts_by_work(projection: Projection) -> dict[str, list[ClaimState]]:
    """Every Work that was ever granted, with its Claims in order of grant."""
    found: dict[str, list[ClaimState]] = {}
    for claim in projection.claims.values():
        found.setdefault(claim.claim.work_id, []).append(claim)
    return found


def launches_of(projection: Projection, work_id: str) -> list[DispatchState]:
    """The launches of a Work's Claims, the latest first; also of those that have ended."""
    claims = [one.claim for one in projection.claims.values() if one.claim.work_id == work_id]
    return [projection.dispatches[one.dispatch_id] for one in reversed(claims)]


def launch_status(dispatch: DispatchState) -> str:
    """One word for how a launch stands, in the words of §7.13."""
    return "released" if dispatch.released else LAUNCH_STATUS[dispatch.state]


def run_facts(dispatch: DispatchState) -> Document:
    """A dispatch's launch as facts; `sender` is the one run that may have sent it."""
    return known(
        dispatch_id=dispatch.assignment.dispatch_id,
        launch=launch_status(dispatch),
        run_id=None if dispatch.run is None else dispatch.run.run_id,
        launch_reason=dispatch.reason,
        conclusion=dispatch.conclusion,
        sender=_sender(dispatch),
    )


def _sender(dispatch: DispatchState) -> Document | None:
    sender = dispatch.sender
    if sender is None:
        return None
    run_id = sender.run_id if isinstance(sender.run_id, str) else None
    return {"principal": sender.principal, **known(run_id=run_id)}


def claim_document(projection: Projection, claim: ClaimState) -> Document:
    """One attempt: its grant, how it ended, and its launch."""
    dispatch = projection.dispatches[claim.claim.dispatch_id]
    return {
        "claim_id": claim.claim.claim_id,
        "handle": claim.claim.handle,
        "state": claim.state,
        "stage": claim_stage(projection, claim),
        "granted_at": claim.at,
        "commit_id": claim.commit_id,
        "request_id": claim.request_id,
        **run_facts(dispatch),
        **known(
            terminal_commit_id=claim.terminal_commit_id,
            cancellation_reason=claim.cancellation_reason,
            retry_not_before=claim.retry_not_before,
        ),
    }
