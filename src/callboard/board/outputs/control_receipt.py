"""What became of a control: the first outcome of its request, kept for good.

Source: specification 1, §§7.12, 7.14. A control that the board answered without a write leaves no
trace there; this note is how anybody can tell that it was asked. It grants nothing.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from callboard import canonical
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Identity
from callboard.errors import CallboardError
from callboard.validate import parse

MAX_RECEIPT_BYTES = 4096


class ControlReceipt(Record, frozen=True, kw_only=True):
    """`accepted`: the request stands in `commit_id`. `nothing`: there was nothing to write, and
    `reason` says why."""

    version: Literal[1]
    kind: Literal["submit", "dispatch_next"]
    request_id: Identity
    outcome: Literal["accepted", "nothing"]
    commit_id: Identity | UnsetType = UNSET
    reason: Identity | UnsetType = UNSET


def receipt_bytes(receipt: ControlReceipt) -> bytes:
    """The canonical bytes."""
    return canonical.encode(receipt)


def read_receipt(data: bytes) -> ControlReceipt:
    """The receipt with these bytes; `descriptor_invalid`, or a codec code."""
    value = canonical.decode(data, limit_bytes=MAX_RECEIPT_BYTES)
    found = parse(ControlReceipt, value, what="control receipt", code="descriptor_invalid")
    if (found.outcome == "accepted") != isinstance(found.commit_id, str):
        raise CallboardError(
            "descriptor_invalid",
            f"the receipt of request {found.request_id} says {found.outcome} and does not fit that",
            "leave refs/callboard/ to Callboard",
        )
    return found
