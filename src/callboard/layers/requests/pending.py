"""Judging all that is pending in a layer, in one pass.

Source: specification 3; layers.md §4. Asked by the coordinator alone, once an attempt has returned.
A request that is refused never stops its layer, and no file is read in a second pass.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from callboard.errors import CallboardError
from callboard.layers.around import Around
from callboard.layers.records import base
from callboard.layers.records.requests import ChildRequest
from callboard.layers.records.state import State
from callboard.layers.requests import admitting, judging, rejecting
from callboard.layers.requests.places import ACCEPTED, PENDING
from callboard.layers.tree import Layer


@dataclass(frozen=True, slots=True)
class _Found:
    """A file of the pending folder: its request, or why it is none."""

    name: str
    body: bytes | None
    request: ChildRequest | None
    refusal: CallboardError | None


def decide(around: Around, root: Layer, layer: Layer, state: State) -> State:
    """Judge all that is pending in `layer`, and give its state afterwards.

    At most one request becomes a child. Whatever is refused is kept unchanged, with a receipt.
    """
    names_there = around.disk.names(layer.file(PENDING))
    if not names_there:
        return state
    found = [_read(around, layer, name) for name in names_there]
    fresh = Counter(
        one.request.origin.parent_attempt_id
        for one in found
        if one.request is not None and not _stands(around, layer, one)
    )
    for one in found:
        if one.request is not None and _stands(around, layer, one):
            around.disk.remove(layer.file(PENDING, one.name))
            continue
        try:
            ready = _ready(around, root, layer, state, one, fresh)
        except CallboardError as refusal:
            rejecting.reject(around, layer, one.name, one.body, one.request, refusal)
            continue
        state = admitting.admit(around, layer, state, ready)
    return state


def _read(around: Around, layer: Layer, name: str) -> _Found:
    body = None
    try:
        body = around.disk.read(layer.file(PENDING, name), base.MAX_RECORD_BYTES, what=name)
        if not name.endswith(".json") or name.startswith("."):
            raise CallboardError(
                "request_foreign",
                "the file's name is not that of a finished request",
                "write a sibling whose name does not end in .json, then rename it to one that does",
            )
        return _Found(name, body, base.read(body, ChildRequest, "the request"), None)
    except CallboardError as error:
        return _Found(name, body, None, error)


def _stands(around: Around, layer: Layer, one: _Found) -> bool:
    """Whether this very request was accepted before: saying it again changes nothing."""
    assert one.request is not None
    place = layer.file(ACCEPTED, f"{one.request.request_id}.json")
    return (
        judging.was_decided(around, layer, one.request.request_id)
        and around.disk.read(place, base.MAX_RECORD_BYTES) == one.body
    )


def _ready(
    around: Around, root: Layer, layer: Layer, state: State, one: _Found, fresh: Counter[str]
) -> judging.Ready:
    if one.refusal is not None:
        raise one.refusal
    assert one.request is not None
    assert one.body is not None
    attempt_id = one.request.origin.parent_attempt_id
    if fresh[attempt_id] > 1:
        raise CallboardError(
            "request_not_alone",
            f"the attempt {attempt_id} left {fresh[attempt_id]} new requests",
            "an attempt may publish one; ask again with one request under a new id",
            {"attempt": attempt_id, "requests": fresh[attempt_id]},
        )
    return judging.judge(around, root, layer, state, one.name, one.body, one.request)
