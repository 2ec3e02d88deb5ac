"""Judging all that is pending in a layer, in one pass.

Source: specification 3; layers.md §4. Asked by the coordinator alone, once an attempt has returned.
A request that is refused never stops its layer, and no file is read in a second pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from callboard.errors import CallboardError
from callboard.layers import names
from callboard.layers.around import Around
from callboard.layers.disk import OF_MACHINE
from callboard.layers.records import base
from callboard.layers.records.requests import ChildRequest, Rejection
from callboard.layers.records.state import State
from callboard.layers.requests import admitting, judging, rejecting
from callboard.layers.requests.places import PENDING
from callboard.layers.tree import Layer
from callboard.visible import visible


@dataclass(frozen=True, slots=True)
class _Found:
    """A file of the pending folder: its request, or why it is none."""

    name: str
    body: bytes | None
    request: ChildRequest | None
    refusal: CallboardError | None


@dataclass(frozen=True, slots=True)
class Decided:
    """The layer's state once nothing is pending, and the receipts of what was refused just now."""

    state: State
    refused: tuple[Rejection, ...] = ()


def decide(around: Around, root: Layer, layer: Layer, state: State) -> Decided:
    """Judge all that is pending in `layer`.

    At most one request becomes a child. Whatever is refused is kept unchanged, with a receipt.
    """
    names_there = around.disk.names(layer.file(PENDING))
    if not names_there:
        return Decided(state)
    refused: list[Rejection] = []
    known = judging.Known.of(around, layer)
    fresh = _fresh(around, layer, known, names_there)
    for name in names_there:
        one = _read(around, layer, name)
        if one is None:
            continue
        if one.body is not None and _stands(known, one.request, one.body):
            admitting.clear(around, layer, name, base.digest(one.body))
            continue
        if rejecting.was_rejected(around, layer, name, one.body):
            rejecting.put_away(around, layer, name, one.body)
            continue
        try:
            ready = _ready(around, root, layer, state, known, one, fresh)
        except CallboardError as refusal:
            if refusal.code in OF_MACHINE:
                raise
            receipt = rejecting.reject(around, layer, name, one.body, one.request, refusal)
            refused.append(receipt)
            known = replace(known, rejected=(*known.rejected, receipt))
        else:
            state = admitting.admit(around, layer, state, ready)
            known = judging.Known.of(around, layer)
    return Decided(state, tuple(refused))


def _read(around: Around, layer: Layer, name: str) -> _Found | None:
    """What a pending file holds; None where it is gone meanwhile."""
    body = None
    try:
        body = around.disk.read(
            layer.file(PENDING, name), base.MAX_RECORD_BYTES, what="the pending file"
        )
        if not name.endswith(".json") or name.startswith(".") or visible(name) != name:
            raise CallboardError(
                "request_foreign",
                f"the file's name {visible(name)[:200]!r} is not that of a finished request",
                "write it under a name of another ending, then rename it to one that ends in .json",
            )
        request = base.read(body, ChildRequest, "the request")
        names.check_key(request.request_id, "request id")
        return _Found(name, body, request, None)
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
        if error.code == "file_missing":
            return None
        return _Found(name, body, None, error)


def _stands(known: judging.Known, request: ChildRequest | None, body: bytes) -> bool:
    """Whether this very request was accepted before: saying it again changes nothing."""
    return request is not None and (request.request_id, base.digest(body)) in {
        (one.request_id, one.body_sha256) for one in known.accepted
    }


def _fresh(
    around: Around, layer: Layer, known: judging.Known, pending: list[str]
) -> Mapping[str, set[str]]:
    """The bodies of all new requests of each attempt, by their digests.

    Those that were put away for not being alone still count, so that a crash between two of them
    lets none of them through.
    """
    fresh: dict[str, set[str]] = defaultdict(set)
    for name in pending:
        one = _read(around, layer, name)
        if one is None or one.request is None or one.body is None:
            continue
        if not _stands(known, one.request, one.body):
            fresh[one.request.origin.parent_attempt_id].add(base.digest(one.body))
    for receipt in known.rejected:
        if receipt.code == "request_not_alone" and receipt.attempt_id is not None:
            fresh[receipt.attempt_id].add(receipt.body_sha256 or receipt.file_name)
    return fresh


def _ready(
    around: Around,
    root: Layer,
    layer: Layer,
    state: State,
    known: judging.Known,
    one: _Found,
    fresh: Mapping[str, set[str]],
) -> judging.Ready:
    if one.refusal is not None:
        raise one.refusal
    assert one.request is not None
    assert one.body is not None
    attempt_id = one.request.origin.parent_attempt_id
    count = len(fresh.get(attempt_id, ()))
    if count > 1:
        raise judging.not_alone(attempt_id, f"left {count} new requests")
    return judging.judge(around, root, layer, state, known, one.name, one.body, one.request)
