"""The record behind a node that is stuck: which commit says so, when, by whom, on what evidence.

Source: specification 1, §§7.8, 7.13 (the last evidence of a launch that is not resolved). Facts of
the ledger only. What a checkpoint has forgotten is called so and never made up.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from callboard.board.projection.entities import WorkState
from callboard.board.protocol.commit import QueueCommit
from callboard.board.protocol.operations import Evidence
from callboard.board.reading.view import Document, View, known
from callboard.errors import CallboardError


def record_of(view: View, state: WorkState) -> Document:
    """`{commit_id, at, role, principal, run_id, attempts, source}` of the latest step of a node
    that is under way or ended; the last three where they were recorded.

    `{before_checkpoint: true}` where a checkpoint stands for that step, and nothing for a node
    that waits: its obstacles are no step of its own.
    """
    if state.state == "available":
        return {}
    commit_id, ids = _latest(view, state)
    ordinal = None if commit_id is None else view.projection.commit_ids.get(commit_id)
    if ordinal is None:
        return {"before_checkpoint": True}
    try:
        commit = view.history.commit(ordinal)
    except CallboardError as error:
        if error.code != "history_unavailable":
            raise
        return {"before_checkpoint": True}
    return _facts(commit, ids)


def _latest(view: View, state: WorkState) -> tuple[str | None, set[str]]:
    """The commit of the latest step, and the ids that its records may name it by."""
    work_id = state.work.work_id
    if state.state == "cancelled":
        return state.cancellation_commit_id, {work_id}
    claim = view.projection.claims[str(state.claim_id)]
    if state.state == "claimed":
        dispatch_id = claim.claim.dispatch_id
        dispatch = view.projection.dispatches[dispatch_id]
        found = claim.commit_id if dispatch.state == "reserved" else dispatch.noted_id
        return found, {dispatch_id}
    if state.barrier == "failed":
        return state.failure_commit_id, {work_id}
    return claim.terminal_commit_id, {claim.claim.claim_id}


def _facts(commit: QueueCommit, ids: set[str]) -> Document:
    actor = commit.actor
    found: Document = {
        "commit_id": commit.id,
        "at": commit.at,
        "role": actor.role,
        "principal": actor.principal,
    }
    if isinstance(actor.run_id, str):
        found["run_id"] = actor.run_id
    for operation in commit.operations:
        named = {getattr(operation, name, None) for name in ("work_id", "claim_id", "dispatch_id")}
        evidence: Any = getattr(operation, "evidence", UNSET)
        if named & ids and isinstance(evidence, Evidence):
            attempts = evidence.attempts
            return found | known(
                attempts=attempts if isinstance(attempts, int) else None, source=evidence.source
            )
    return found
