"""What an output will look like in a descriptor, told before anything of it is stored.

So that too many outputs are refused while they are staged. An estimate is never smaller than the
real entry, save that of a project's own type.
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
    memory_estimate,
    note_entry,
    own_entry,
    patch_estimate,
    submit_entry,
)
from callboard.board.outputs.messages import MemoryTerms, Terms
from callboard.board.outputs.resources import Target
from callboard.board.protocol.commit import AssignedClaim
from callboard.board.protocol.memory_rules import MAX_BRANCH_BYTES, MAX_PATH_BYTES
from callboard.board.protocol.output_types import is_own_type

_REPOSITORY = "o/r"
_NAME, _PATH = "m" * MAX_BRANCH_BYTES, "m" * MAX_PATH_BYTES


def estimate(member: AssignedClaim, pool: str, output: Output, terms: Terms) -> Entry:
    """The entry of an output of `member` in a run with these terms, its object names zeros."""
    claim_id, oid_length = member.claim_id, terms.oid_length
    if isinstance(output, ArtifactOutput):
        return artifact_estimate(
            claim_id, output.name, output.sha256, output.size_bytes, oid_length
        )
    if isinstance(output, BatchOutput):
        return batch_entry(claim_id, output, pool)
    if isinstance(output, NoopOutput):
        return NoopEntry(reason=output.reason)
    if isinstance(output, BodyOutput) and output.type == "memory":
        known = terms.memory
        name, path = (
            (known.branch, known.path) if isinstance(known, MemoryTerms) else (_NAME, _PATH)
        )
        return memory_estimate(member.work_id, name, path, output, oid_length)
    if isinstance(output, BodyOutput) and is_own_type(output.type):
        # What its handler adds is known once it was asked, and judged then.
        target = Target(repository=_REPOSITORY)
        return own_entry(claim_id, output, "0" * oid_length, {}, target)
    if isinstance(output, BodyOutput):
        make = submit_entry if output.type == "submit" else note_entry
        return make(claim_id, output, "0" * oid_length)
    return patch_estimate(member.work_id, oid_length)
