"""`events.jsonl`: what happened in a layer, for people and programs that follow it.

A projection, at best effort: what a crash keeps out of it is missing there and nowhere else, and
nothing is ever decided by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from callboard.errors import CallboardError
from callboard.layers import locking
from callboard.layers.around import Around
from callboard.layers.records.base import Event, encode
from callboard.layers.tree import Layer

NAME = "events.jsonl"
MAX_PART_BYTES = 64 * 1024 * 1024
_WRITER_WAIT_S = 1.0
"""The coordinator is held up no longer by somebody who has stopped while appending."""


def tell(around: Around, layer: Layer, kind: type[Event], **facts: Any) -> None:
    """Append one event with these facts; whatever hinders it hinders nothing else.

    For whoever has just made true what it tells, so that nobody tells it a second time.
    """
    event = kind(at_ms=around.clock.now_ms(), session_id=layer.session.session_id, **facts)
    try:
        with locking.writer(around, _WRITER_WAIT_S):
            around.disk.append(layer.file(NAME), encode(event))
    except (CallboardError, OSError):
        return


def events(
    around: Around, layer: Layer, start_byte: int = 0
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Events from a byte on, each with the byte behind it; torn and strange lines are left out.

    At most `MAX_PART_BYTES` are read; who wants more asks again from where it ended.
    """
    place = layer.file(NAME)
    if around.disk.kind(place) is None:
        return
    with around.disk.reading(place) as stream:
        stream.seek(start_byte)
        data = stream.read(MAX_PART_BYTES)
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        line, at = data[at:end], end + 1
        try:
            event = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(event, dict):
            yield start_byte + at, event
