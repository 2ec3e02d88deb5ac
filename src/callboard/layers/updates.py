"""`inputs/updates.jsonl`: what the user adds while a layer is at work, for its next attempt."""

from __future__ import annotations

import msgspec

from callboard import canonical
from callboard.errors import CallboardError
from callboard.layers.around import Around
from callboard.layers.records.base import Record, Text, Time
from callboard.layers.tree import Layer

NAME = "inputs/updates.jsonl"
MAX_UPDATES_BYTES = 8 * 1024 * 1024


class Update(Record, frozen=True, kw_only=True):
    """One line: what somebody added, and when."""

    at_ms: Time
    text: Text


def add(around: Around, layer: Layer, text: str) -> int:
    """Add to what the layer is told; gives the number of updates it then has.

    Raises `text_invalid`, or `resource_limit` where the layer has been told too much already.
    """
    at_ms = around.clock.now_ms()
    try:
        update = msgspec.convert({"at_ms": at_ms, "text": text}, Update)
    except msgspec.ValidationError as error:
        raise CallboardError(
            "text_invalid",
            f"the update of {len(text)} characters cannot be taken: {error}",
            "give plain text that is not empty",
        ) from error
    line = canonical.encode(msgspec.to_builtins(update)) + b"\n"
    present = _data(around, layer)
    if len(present) + len(line) > MAX_UPDATES_BYTES:
        raise CallboardError(
            "resource_limit",
            f"the updates of this layer would have more than {MAX_UPDATES_BYTES} bytes",
            "put long texts into a file of the repository, and name it",
            {"limit_bytes": MAX_UPDATES_BYTES},
        )
    around.disk.append(layer.file(NAME), line)
    return len(since(around, layer, 0))


def since(around: Around, layer: Layer, count: int) -> tuple[str, ...]:
    """All updates but the first `count` lines; a line that is torn or strange is left out."""
    found = []
    for line in _data(around, layer).split(b"\n")[:-1][count:]:
        try:
            found.append(msgspec.json.decode(line, type=Update).text)
        except msgspec.DecodeError:
            continue
    return tuple(found)


def count(around: Around, layer: Layer) -> int:
    """How many lines there are."""
    return _data(around, layer).count(b"\n")


def _data(around: Around, layer: Layer) -> bytes:
    if around.disk.kind(layer.file(NAME)) is None:
        return b""
    return around.disk.read(layer.file(NAME), MAX_UPDATES_BYTES)
