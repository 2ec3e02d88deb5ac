"""Putting a pending file away that becomes no child: unchanged, with a receipt that says why.

Source: layers.md §4. The receipt decides. Killed at any moment, the same file is put away under the
same name by whoever comes next, and not judged once more.
"""

from __future__ import annotations

import re

from callboard.canonical import sha256_hex
from callboard.errors import CallboardError
from callboard.layers.around import Around
from callboard.layers.disk import OF_MACHINE
from callboard.layers.records import base
from callboard.layers.records.requests import ChildRequest, Rejection
from callboard.layers.requests import admitting
from callboard.layers.requests.places import PENDING, RECEIPT, REJECTED
from callboard.layers.tree import Layer
from callboard.visible import visible

_MAX_REASON = 4000
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def reject(
    around: Around,
    layer: Layer,
    name: str,
    body: bytes | None,
    request: ChildRequest | None,
    refusal: CallboardError,
) -> Rejection:
    """Keep the file `name` as it is, beside a receipt of `refusal`, which is returned."""
    if body is None:
        body = _bytes_of(around, layer, name)
    kept = _kept_name(around, layer, name, body)
    receipt = Rejection(
        schema_version=1,
        file_name=visible(name),
        request_id=request.request_id if request else None,
        body_sha256=None if body is None else base.digest(body),
        kept_as=kept,
        code=refusal.code,
        reason=visible(refusal.message)[:_MAX_REASON],
        attempt_id=request.origin.parent_attempt_id if request else None,
        decided_at_ms=around.clock.now_ms(),
    )
    around.disk.publish_new(layer.file(REJECTED, kept + RECEIPT), base.encode(receipt))
    put_away(around, layer, name, body)
    return receipt


def was_rejected(around: Around, layer: Layer, name: str, body: bytes | None) -> bool:
    """Whether these bytes in a file of that name have the receipt of a rejection."""
    if body is None:
        return False
    kept = _kept_name(around, layer, name, body)
    return around.disk.kind(layer.file(REJECTED, kept + RECEIPT)) == "file"


def put_away(around: Around, layer: Layer, name: str, body: bytes | None) -> None:
    """The last step: what was judged is kept, and gone from the pending folder.

    Bytes are kept as they were read, so that somebody who writes to the file meanwhile changes
    nothing that has a receipt; what has no bytes is moved.
    """
    kept = layer.file(REJECTED, _kept_name(around, layer, name, body))
    if body is None:
        _move(around, layer.file(PENDING, name), kept)
        return
    around.disk.publish_new(kept, body)
    admitting.clear(around, layer, name, base.digest(body))


def _move(around: Around, place: str, kept: str) -> None:
    try:
        around.disk.move(place, kept)
    except CallboardError as error:
        # Gone meanwhile: there is nothing to keep.
        if error.code != "file_missing":
            raise


def _bytes_of(around: Around, layer: Layer, name: str) -> bytes | None:
    """The bytes of a file that was too large to be a request; None for one yet larger, which is
    put away without a digest, and for what is no file."""
    try:
        return around.disk.read(layer.file(PENDING, name), admitting.MAX_KEPT_BYTES)
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
        return None


def _kept_name(around: Around, layer: Layer, name: str, body: bytes | None) -> str:
    """The same for the same file; a folder or link gets a number where the name is taken."""
    plain = name
    # Nothing that is kept may be taken for a receipt.
    if _PLAIN.fullmatch(name) is None or name.casefold().endswith(RECEIPT):
        plain = f"name_{sha256_hex(name.encode('utf-8', 'surrogateescape'))[:16]}"
    if body is not None:
        return f"{sha256_hex(body)[:16]}_{plain}"
    number = 1
    while around.disk.kind(layer.file(REJECTED, f"nobody{number}_{plain}")) is not None:
        number += 1
    return f"nobody{number}_{plain}"
