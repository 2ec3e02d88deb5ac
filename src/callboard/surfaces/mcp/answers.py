"""The form of every answer: one JSON document, bounded, and safe to print.

Characters that cannot be seen, or that turn reading order round, are spelled as JSON escapes; the
values stay what they are. Nothing here knows what a board is.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from callboard.errors import CallboardError

Document = dict[str, Any]

MAX_ANSWER_BYTES = 32 * 1024
"""The most bytes of one answer's document, as its text."""
MAX_LINE_BYTES = 100 * 1024
"""The most bytes of one answer on the wire, which has the document as text and as a structure."""

_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)


def text_of(document: Document) -> str:
    """The document as compact JSON on one line."""
    return _UNSEEN.sub(_escape, msgspec.json.encode(document).decode())


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def size_of(value: Any) -> int:
    """The bytes that a value takes in an answer."""
    return len(text_of(value).encode())


def refusal(error: CallboardError) -> Document:
    """A refusal as every surface shows it; details that there is no room for are left out."""
    document: Document = {"error": error.document()}
    if size_of(document) <= MAX_ANSWER_BYTES:
        return document
    said = error.document()
    return {
        "error": {
            "code": error.code,
            "message": str(said["message"])[:2_000],
            "hint": str(said["hint"])[:2_000],
            "details": {"left_out": True},
        }
    }


def add_fitting(document: Document, target: Document, parts: Document) -> None:
    """Add parts to `target`, which lies in `document`, as long as the whole stays within bounds.

    What does not fit is named in `document["left_out"]`, for which room is kept.
    """
    left_out = [*document.get("left_out", [])]
    room = MAX_ANSWER_BYTES - size_of(document) - 256
    for name, value in parts.items():
        need = size_of({name: value})
        if need > room:
            left_out.append(name)
            continue
        room -= need
        target[name] = value
    if left_out:
        document["left_out"] = left_out
