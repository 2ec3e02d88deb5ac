"""The durable note of what a Claim is about to deliver: one blob under one ref, written once.

It is made before the Completion and never changed, so that after a crash anybody can tell what was
to be there. It is evidence about outputs; it grants nothing.
"""

from __future__ import annotations

from callboard.board.outputs.descriptor import (
    Descriptor,
    descriptor_bytes,
    prepared_ref,
    read_descriptor,
)
from callboard.board.outputs.messages import MAX_RESULT_BYTES
from callboard.board.storage.repository import Repository


def write_prepared(repository: Repository, claim_id: str, descriptor: Descriptor) -> None:
    """Keep `descriptor` for the Claim. A note that is there already stands; it is the run's own."""
    blob = repository.write_blob(descriptor_bytes(descriptor))
    # False where another process of the same run's host was first, which is as good.
    repository.set_ref(prepared_ref(claim_id), None, blob)


def read_prepared(repository: Repository, claim_id: str) -> Descriptor | None:
    """What the Claim was to deliver; None where nothing was prepared.

    Raises `descriptor_invalid`, a codec code, or the codes of `Repository.read_blob`.
    """
    blob = repository.read_ref(prepared_ref(claim_id))
    if blob is None:
        return None
    return read_descriptor(repository.read_blob(blob, MAX_RESULT_BYTES))
