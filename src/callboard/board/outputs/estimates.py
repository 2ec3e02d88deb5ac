"""What an output will look like in a descriptor, told before anything of it is stored.

So that too many outputs are refused while they are staged. An estimate is never smaller than the
real entry.
"""

from __future__ import annotations

from callboard.board.outputs.claims import (
    ArtifactOutput,
    BatchOutput,
    BodyOutput,
    NoopOutput,
    Output,
)
from callboard.board.outputs.descriptor import (
    Entry,
    NoopEntry,
    artifact_estimate,
    batch_entry,
    note_entry,
    patch_estimate,
    submit_entry,
)
from callboard.board.protocol.commit import AssignedClaim


def estimate(member: AssignedClaim, pool: str, output: Output, oid_length: int) -> Entry:
    """The entry of an output of `member`, with object names of `oid_length` zeros."""
    claim_id = member.claim_id
    if isinstance(output, ArtifactOutput):
        return artifact_estimate(
            claim_id, output.name, output.sha256, output.size_bytes, oid_length
        )
    if isinstance(output, BatchOutput):
        return batch_entry(claim_id, output, pool)
    if isinstance(output, NoopOutput):
        return NoopEntry(reason=output.reason)
    if isinstance(output, BodyOutput):
        make = submit_entry if output.type == "submit" else note_entry
        return make(claim_id, output, "0" * oid_length)
    return patch_estimate(member.work_id, oid_length)
