"""How two plain JSON values differ, place by place.

A comparison of values only; what a difference means is for whoever asks.
"""

from __future__ import annotations

from typing import Any

from callboard.board.reading.view import Document
from callboard.validate import pointer_step

MAX_DIFFERENCES = 1_000


def differences(installed: Any, proposed: Any) -> list[Document]:
    """Each place where they differ: `{pointer, installed?, proposed?}`, a missing side left out."""
    found: list[Document] = []
    _compare(installed, proposed, "", found)
    return found[:MAX_DIFFERENCES]


def _compare(installed: Any, proposed: Any, pointer: str, found: list[Document]) -> None:
    if isinstance(installed, dict) and isinstance(proposed, dict):
        for key in sorted(installed.keys() | proposed.keys()):
            place = pointer + pointer_step(key)
            if key not in proposed:
                found.append({"pointer": place, "installed": installed[key]})
            elif key not in installed:
                found.append({"pointer": place, "proposed": proposed[key]})
            else:
                _compare(installed[key], proposed[key], place, found)
    elif installed != proposed:
        found.append({"pointer": pointer, "installed": installed, "proposed": proposed})
