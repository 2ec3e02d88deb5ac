"""The user's wish that a tree ends: written by anybody, followed by the coordinator.

Source: layers.md §4 (stops), §6. It ends the deepest layer between attempts, and with it, as each
child is taken in, all above it.
"""

from __future__ import annotations

from typing import Literal

from callboard.layers.around import Around
from callboard.layers.records import base
from callboard.layers.stored import read_record
from callboard.layers.tree import Layer

NAME = "stop_request.json"


class StopRequest(base.Record, frozen=True, kw_only=True):
    """`stop_request.json` of a root."""

    schema_version: Literal[1]
    reason: base.Text
    requested_at_ms: base.Time


def ask(around: Around, root: Layer, reason: str) -> bool:
    """Ask for the end of a tree; False: somebody has asked before, and that stays."""
    request = StopRequest(schema_version=1, reason=reason, requested_at_ms=around.clock.now_ms())
    return around.disk.publish_new(root.file(NAME), base.encode(request))


def wish(around: Around, root: Layer) -> str | None:
    """Why the tree is to end; None: nobody has asked."""
    if around.disk.kind(root.file(NAME)) is None:
        return None
    return read_record(around.disk, root.file(NAME), StopRequest).reason
