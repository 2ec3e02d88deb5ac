"""The state a decision was taken on, replayed from the ledger.

Source: specification 1, §7.13 (`--before-claim`). It is read anew from the commits before the one
in question; the board's present state is not touched.
"""

from __future__ import annotations

from callboard.board.ledger.history import History
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import Context
from callboard.board.projection.transitions.observation import apply_observation
from callboard.board.protocol.commit import QueueCommit
from callboard.board.protocol.operations import Observation


def decision_prefix(history: History, commit_id: str) -> tuple[Projection, QueueCommit]:
    """The state before a commit, with the observations it brings itself, and the commit."""
    ordinal = history.projection.commit_ids[commit_id]
    commit = history.commit(ordinal)
    projection = history.prefix(ordinal).projection
    context = Context(commit, ordinal)
    for operation in commit.operations:
        if isinstance(operation, Observation):
            apply_observation(projection, context, operation)
    return projection, commit
