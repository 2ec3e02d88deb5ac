"""`inputs/updates.jsonl`: what the user adds while a layer is at work, for its next attempt.

Updates are counted by the lines that are whole: a torn one is nobody's, and spoils none after it.
"""

from __future__ import annotations

import msgspec

from callboard import canonical
from callboard.errors import CallboardError
from callboard.layers import locking
from callboard.layers.around import Around
from callboard.layers.records.base import Id, Record, Text, Time
from callboard.layers.tree import Layer

NAME = "inputs/updates.jsonl"
MAX_UPDATES_BYTES = 8 * 1024 * 1024
MAX_TOLD = 500
"""As many are told to one attempt; what is left is for the next one."""
MAX_TOLD_BYTES = 2 * 1024 * 1024
"""Of all that one attempt is told; one update is always told, however long."""


class Update(Record, frozen=True, kw_only=True):
    """One line: what somebody added, and when."""

    at_ms: Time
    text: Text
    from_session: Id | None = None
    """The child layer that ended before it could tell any attempt of it."""


def add(around: Around, layer: Layer, text: str) -> int:
    """Add to what the layer is told; gives the number of updates it then has.

    Raises `text_invalid`, or `resource_limit` where the layer has been told too much already.
    """
    at_ms = around.clock.now_ms()
    try:
        update = msgspec.convert({"at_ms": at_ms, "text": text}, Update)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise CallboardError(
            "text_invalid",
            f"the update of {len(text)} characters cannot be taken: it is empty, too long, or has"
            " control characters",
            "give plain text of at most 262144 characters; line breaks and tabs are allowed",
            {"characters": len(text)},
        ) from error
    with locking.writer(around):
        _append(around, layer, [update])
        return len(_all(around, layer))


def hand_up(around: Around, child: Layer, delivered: int, parent: Layer) -> None:
    """Tell `parent` what `child` ended without having been told. Done again, nothing is added."""
    origin = child.session.session_id
    rest = _all(around, child)[delivered:]
    if not rest:
        return
    with locking.writer(around):
        if any(one.from_session == origin for one in _all(around, parent)):
            return
        handed = [msgspec.structs.replace(one, from_session=origin) for one in rest]
        _append(around, parent, handed)


def waiting(around: Around, layer: Layer, delivered: int) -> tuple[str, ...]:
    """What the next attempt is to be told: all but the first `delivered`, within the limits."""
    told: list[str] = []
    room = MAX_TOLD_BYTES
    for one in _all(around, layer)[delivered:]:
        room -= len(canonical.encode(one.text))
        if told and (room < 0 or len(told) == MAX_TOLD):
            break
        told.append(one.text)
    return tuple(told)


def _append(around: Around, layer: Layer, updates: list[Update]) -> None:
    lines = b"".join(canonical.encode(msgspec.to_builtins(one)) + b"\n" for one in updates)
    present = _data(around, layer)
    if len(present) + len(lines) > MAX_UPDATES_BYTES:
        raise CallboardError(
            "resource_limit",
            f"the updates of this layer would have more than {MAX_UPDATES_BYTES} bytes",
            "put long texts into a file of the repository, and name it",
            {"limit_bytes": MAX_UPDATES_BYTES},
        )
    # What a process that was killed left half done must not swallow this line as well.
    torn = bool(present) and not present.endswith(b"\n")
    around.disk.append(layer.file(NAME), b"\n" * torn + lines)


def _all(around: Around, layer: Layer) -> list[Update]:
    """All updates, the oldest first; a line that is torn or strange is none."""
    found = []
    for line in _data(around, layer).split(b"\n")[:-1]:
        try:
            found.append(msgspec.json.decode(line, type=Update))
        except msgspec.DecodeError:
            continue
    return found


def _data(around: Around, layer: Layer) -> bytes:
    if around.disk.kind(layer.file(NAME)) is None:
        return b""
    # A line break more may come than was reckoned with.
    return around.disk.read(layer.file(NAME), MAX_UPDATES_BYTES + 1)
