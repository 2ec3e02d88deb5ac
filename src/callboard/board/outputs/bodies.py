"""What the bodies of outputs must be, as far as their form goes.

Source: specification 1, §7.14. Bytes of an untrusted side are judged within bounds that were
checked before; nothing here knows what they mean.
"""

from __future__ import annotations

from callboard import canonical
from callboard.board.outputs.messages import BODY_LIMITS
from callboard.errors import CallboardError
from callboard.validate import show


def check_text(data: bytes) -> None:
    """Refuse with `note_invalid` what is no text that a person could read."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _no_text(f"is not UTF-8 at byte {error.start}") from error
    if not text.strip():
        raise _no_text("is empty")
    for place, char in enumerate(text):
        if char not in "\n\t" and (ord(char) < 32 or ord(char) == 127):
            raise _no_text(f"holds the control character {ord(char):#04x} at {place}")


def _no_text(found: str) -> CallboardError:
    return CallboardError("note_invalid", f"the note {found}", "write plain text in UTF-8")


def json_object(data: bytes, kind: str) -> dict[str, canonical.Json]:
    """The JSON object in a body of that kind of message, or `body_invalid`, or a codec code."""
    value = canonical.decode(data, limit_bytes=BODY_LIMITS[kind])
    if not isinstance(value, dict):
        raise CallboardError(
            "body_invalid",
            f"the body of this {kind} is {show(value)}, not an object",
            "give a JSON object",
        )
    return value


def check_form(kind: str, data: bytes) -> None:
    """Judge a body by the kind of its message."""
    if kind == "note":
        check_text(data)
    else:
        json_object(data, kind)
