"""What every answer about a board says of itself: where it comes from, and for when it holds.

The one place that sets the board's time against this machine's.
"""

from __future__ import annotations

from typing import Any

from callboard.clock import SystemClock
from callboard.surfaces.cli.render import clock, short


def stamp_text(document: dict[str, Any]) -> str:
    """Where an answer comes from, for when it holds, and after which commit."""
    when = clock(document["evaluated_at_ms"], SystemClock().now_ms())
    return f"{document['provenance']} at {when}, tip {short(document['tip'])}"


def present_ms(document: dict[str, Any]) -> int:
    """The time to reckon waits from, in Unix ms: this machine's where the board's is ahead."""
    return min(int(document["evaluated_at_ms"]), SystemClock().now_ms())


def place_text(document: dict[str, Any]) -> str:
    """Where the board is (`Site.place`), and of a snapshot how old that is."""
    place = f"branch {document['branch']}"
    if "remote" in document:
        place += f" of the remote {document['remote']}"
    if document["provenance"] == "snapshot":
        place += f" as fetched {clock(document.get('fetched_at_ms'), document['evaluated_at_ms'])}"
    return place
