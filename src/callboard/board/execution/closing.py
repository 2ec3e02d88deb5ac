"""What a run is told that comes too late: which of its Claims have ended, how, and by whom.

Source: specification 1, §§7.14, 7.18 (a Claim that is cancelled has no effects any more). Facts and
words from the ledger alone; nothing is decided here.
"""

from __future__ import annotations

from callboard.board.ledger.history import History
from callboard.board.outputs.closed import ClosedClaim, ClosedClaims
from callboard.board.projection.entities import ClaimState, DispatchState
from callboard.errors import CallboardError

MAX_NAMED = 16


def closed_claims(history: History, state: DispatchState) -> ClosedClaims:
    """The members of a group that are not open, as its run is told them."""
    return ClosedClaims(
        closed=[
            ClosedClaim(
                handle=member.handle,
                claim_id=member.claim_id,
                work_id=member.work_id,
                state=claim.state,
                reason=_reason(history, claim),
            )
            for member in state.assignment.claims
            if (claim := history.projection.claims[member.claim_id]).state != "open"
        ]
    )


def closed_text(history: History, state: DispatchState) -> str:
    """One line for people on the ended Claims of a group."""
    claims = [history.projection.claims[one.claim_id] for one in state.assignment.claims]
    closed = [_one(history, claim) for claim in claims if claim.state != "open"][:MAX_NAMED]
    return f"nothing was executed: {'; '.join(closed)}"


def _one(history: History, claim: ClaimState) -> str:
    work = history.projection.works[claim.claim.work_id]
    how = _reason(history, claim)
    commit_id = claim.terminal_commit_id or work.cancellation_commit_id
    text = f"node {work.work.node_key!r} was {claim.state} before ({how})"
    return text if commit_id is None else f"{text}, {_by(history, commit_id)}"


def _reason(history: History, claim: ClaimState) -> str:
    work = history.projection.works[claim.claim.work_id]
    return claim.cancellation_reason or work.cancellation_reason or claim.state


def _by(history: History, commit_id: str) -> str:
    try:
        actor = history.commit(history.projection.commit_ids[commit_id]).actor
    except (CallboardError, KeyError):
        # Behind a checkpoint whose archive cannot be read the id still tells which.
        return commit_id
    return f"by {actor.role} {actor.principal} in {commit_id}"
