"""Who paused what, why and when: the control that stands for each pause.

The board's state only says that it is paused; the record behind it
is looked for backwards from the tip.
"""

from __future__ import annotations

from callboard.board.protocol.operations import Control
from callboard.board.reading.view import Document, View

_NAMES = {"admission": "admission_paused", "grants": "grants_paused"}
WHAT = {name: what for what, name in _NAMES.items()}
"""Control -> what a person calls it."""


def pauses(view: View) -> Document:
    """`{what: {reason, since_ms, commit_id, principal}}` for what is paused now."""
    projection = view.projection
    missing = {name: what for what, name in _NAMES.items() if getattr(projection, name)}
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
