"""Who paused what, why and when: the control that stands for each pause.

The board's state only says that it is paused; the record behind it is looked for backwards from the
tip, also behind a checkpoint where that is at hand.
"""

from __future__ import annotations

from typing import Literal

from callboard.board.protocol.operations import Control
from callboard.board.reading.view import Document, View
from callboard.errors import CallboardError

Pause = Literal["admission", "grants"]
CONTROLS: dict[Pause, Literal["admission_paused", "grants_paused"]] = {
    "admission": "admission_paused",
    "grants": "grants_paused",
}
"""What a person calls it -> control."""
WHAT: dict[str, Pause] = {name: what for what, name in CONTROLS.items()}
"""Control -> what a person calls it."""


def pauses(view: View) -> Document:
    """`{what: {reason, since_ms, commit_id, principal}}` for what is paused now.

    `{what: {before_checkpoint: true}}` where that was said before a checkpoint, out of reach.
    """
    projection = view.projection
    missing = {name: what for name, what in WHAT.items() if getattr(projection, name)}
    found: Document = {}
    for request in reversed(projection.requests.values()):
        if not missing:
            break
        if request.kind != "control":
            continue
        try:
            commit = view.history.commit(projection.commit_ids[request.id])
        except CallboardError as error:
            if error.code != "history_unavailable":
                raise
            return found | {what: {"before_checkpoint": True} for what in missing.values()}
        for operation in commit.operations:
            if isinstance(operation, Control) and operation.control in missing:
                found[missing.pop(operation.control)] = {
                    "reason": operation.reason,
                    "since_ms": commit.at,
                    "commit_id": commit.id,
                    "principal": commit.actor.principal,
                }
    return found
