"""Putting a pending file away that becomes no child: unchanged, with a receipt that says why.

Source: layers.md §4. Killed at any moment, the same file is put away once more under the same name.
"""

from __future__ import annotations

import re

from callboard.canonical import sha256_hex
from callboard.errors import CallboardError
from callboard.layers.around import Around
from callboard.layers.records import base
from callboard.layers.records.requests import ChildRequest, Rejection
from callboard.layers.requests.places import PENDING, RECEIPT, REJECTED
from callboard.layers.tree import Layer
from callboard.visible import visible

_MAX_HASHED_BYTES = 32 * 1024 * 1024
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def reject(
    around: Around,
    layer: Layer,
    name: str,
    body: bytes | None,
    request: ChildRequest | None,
    refusal: CallboardError,
) -> None:
    """Keep the file `name` as it is, beside a receipt of `refusal`."""
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
        reason=refusal.message,
        attempt_id=request.origin.parent_attempt_id if request else None,
        decided_at_ms=around.clock.now_ms(),
    )
    around.disk.publish_new(layer.file(REJECTED, kept + RECEIPT), base.encode(receipt))
    around.disk.move(layer.file(PENDING, name), layer.file(REJECTED, kept))


def _bytes_of(around: Around, layer: Layer, name: str) -> bytes | None:
    """What there is to be hashed of a file that was too large to be read as a request."""
    try:
        return around.disk.read(layer.file(PENDING, name), _MAX_HASHED_BYTES)
    except CallboardError:
        return None


def _kept_name(around: Around, layer: Layer, name: str, body: bytes | None) -> str:
    """The same for the same file; a folder or link gets a number where the name is taken."""
    plain = (
        name
        if _PLAIN.fullmatch(name)
        else f"name_{sha256_hex(name.encode('utf-8', 'surrogateescape'))[:16]}"
    )
    if body is not None:
        return f"{sha256_hex(body)[:16]}_{plain}"
    number = 1
    while around.disk.kind(layer.file(REJECTED, f"nobody{number}_{plain}")) is not None:
        number += 1
    return f"nobody{number}_{plain}"
