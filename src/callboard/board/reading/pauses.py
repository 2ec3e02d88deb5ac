"""Who paused what, why and when: the control that stands for each pause.

The board's state only says that it is paused; the record behind it
is looked for backwards from the tip.
"""

from __future__ import annotations

from typing import Literal

from callboard.board.protocol.operations import Control
from callboard.board.reading.view import Document, View

Pause = Literal["admission", "grants"]
CONTROLS: dict[Pause, Literal["admission_paused", "grants_paused"]] = {
    "admission": "admission_paused",
    "grants": "grants_paused",
}
"""What a person calls it -> control."""
WHAT: dict[str, Pause] = {name: what for what, name in CONTROLS.items()}
"""Control -> what a person calls it."""


def pauses(view: View) -> Document:
    """`{what: {reason, since_ms, commit_id, principal}}` for what is paused now."""
    projection = view.projection
    missing = {name: what for name, what in WHAT.items() if getattr(projection, name)}
    found: Document = {}
    for request in reversed(projection.requests.values()):
        if not missing:
            break
        if request.kind != "control":
            continue
        commit = view.history.commit(projection.commit_ids[request.id])
        for operation in commit.operations:
            if isinstance(operation, Control) and operation.control in missing:
                found[missing.pop(operation.control)] = {
                    "reason": operation.reason,
                    "since_ms": commit.at,
                    "commit_id": commit.id,
                    "principal": commit.actor.principal,
                }
    return found
