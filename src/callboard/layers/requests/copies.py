"""What a child layer was given, read again, and restored where an agent has changed its copy.

The parent's archive and the files that were named are the other copies. What has another digest
than was accepted is never used; what cannot be restored is told, so that the layer can end.
"""

from __future__ import annotations

from callboard.errors import CallboardError
from callboard.layers import journal, references, stored, tree
from callboard.layers.around import Around
from callboard.layers.disk import OF_MACHINE
from callboard.layers.records import base
from callboard.layers.records.events import InputRestored
from callboard.layers.records.requests import Acceptance, ChildRequest
from callboard.layers.requests.inputs import MAX_INPUT_BYTES, name_in_child
from callboard.layers.requests.places import ACCEPTED, ARTIFACTS, RECEIPT, REQUEST
from callboard.layers.sealing import put
from callboard.layers.tree import Layer


class InputsLostError(Exception):
    """A file that the layer was given is changed or gone, and so is every other copy."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"{place}: {what}")


def request_of(around: Around, layer: Layer) -> ChildRequest:
    """The request that the layer was made from, exactly as it was accepted."""
    session = layer.session
    parent = tree.read_layer(around.disk, layer.place.rpartition("/children/")[0])
    archive = parent.file(ACCEPTED, str(session.request_id))
    receipt = stored.read_record(around.disk, archive + RECEIPT, Acceptance)
    if (receipt.request_id, receipt.child_session_id) != (session.request_id, session.session_id):
        raise stored.corrupt(archive + RECEIPT, f"it is not of the layer {session.session_id}")
    place = layer.file(REQUEST)
    data = _read(around, place, base.MAX_RECORD_BYTES, receipt.body_sha256)
    if data is None:
        data = _read(around, f"{archive}.json", base.MAX_RECORD_BYTES, receipt.body_sha256)
        _restore(around, layer, place, data)
    assert data is not None
    return stored.parse_record(data, ChildRequest, place)


def artifact(around: Around, layer: Layer, number: int, ref: str, sha256: str) -> tuple[str, int]:
    """The place and size of the input `number`, counted from 1, which has that digest."""
    place = layer.file(ARTIFACTS, name_in_child(number, ref))
    data = _read(around, place, MAX_INPUT_BYTES, sha256)
    if data is None:
        data = _original(around, layer, ref, sha256)
        _restore(around, layer, place, data)
    assert data is not None
    return place, len(data)


def _original(around: Around, layer: Layer, ref: str, sha256: str) -> bytes | None:
    try:
        place = references.place_of(around.disk, layer, ref)
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
        return None
    return _read(around, place, MAX_INPUT_BYTES, sha256)


def _read(around: Around, place: str, limit_bytes: int, sha256: str) -> bytes | None:
    """The bytes with that digest; None: whatever lies there has not."""
    try:
        data = around.disk.read(place, limit_bytes)
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
        return None
    return data if base.digest(data) == sha256 else None


def _restore(around: Around, layer: Layer, place: str, data: bytes | None) -> None:
    if data is None:
        raise InputsLostError(
            place, "it is not what was accepted, and no other copy of that is left"
        )
    around.disk.make_folder(place.rpartition("/")[0])
    put(around.disk, place, data)
    journal.tell(around, layer, InputRestored, file=place)
