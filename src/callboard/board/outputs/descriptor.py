"""What a Claim delivered, as successors receive it, and the names that follow from the Claim.

Source: wire-v3 §10 (Outputs). Names are derived, never chosen by a worker, so that one Claim
cannot say that it delivered what lies elsewhere.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from callboard import canonical
from callboard.board.outputs.artifact_names import check_name, encode_name
from callboard.board.outputs.claims import BatchOutput, BodyOutput
from callboard.board.outputs.messages import MAX_RESULT_BYTES, Size
from callboard.board.outputs.resources import Target
from callboard.board.protocol.operations import Payload
from callboard.board.protocol.output_types import BUILT_IN
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Digest, Identity, Revision
from callboard.errors import CallboardError
from callboard.validate import parse

ARTIFACTS = "refs/callboard/artifacts/"
NOTES = "refs/callboard/notes/"
CONTROLS = "refs/callboard/controls/"
OWN = "refs/callboard/own/"
PREPARED = "refs/callboard/prepared/"
BRANCHES = "refs/heads/"
BRANCH_FOLDER = "callboard/"
MEMORY_FOLDER = "memory/"
_PLAIN_CLAIM = re.compile(r"c_[0-9a-f]{1,128}(?:_[0-9]{1,10})?")
_NUMBERED = re.compile(r"-([0-9]{3})\Z")
_DIGEST_MARK = "sha256-"
_WORK_DIGITS = 12
_WIDEST_ATTEMPT = 16
_MAX_OUTPUTS = 256

ClaimCount = Annotated[int, Meta(ge=1, le=256)]


class ArtifactEntry(Record, frozen=True, kw_only=True, tag_field="type", tag="artifact"):
    """One stored artifact: the blob under `ref`, its SHA-256 and its size."""

    name: str
    ref: str
    blob: Revision
    sha256: Digest
    size_bytes: Size


class PatchEntry(Record, frozen=True, kw_only=True, tag_field="type", tag="patch"):
    """One delivered commit: the short name of its branch, its tree and its one parent."""

    branch: Identity
    commit: Revision
    tree: Revision
    parent: Revision


class NoteEntry(Record, frozen=True, kw_only=True, tag_field="type", tag="note"):
    """One comment on the Claim's node: the blob with its text under `ref`."""

    ref: str
    blob: Revision
    sha256: Digest
    size_bytes: Size


class MemoryEntry(Record, frozen=True, kw_only=True, tag_field="type", tag="memory"):
    """One memory: the file at `path` in the one commit of its branch upon `parent`."""

    branch: Identity
    path: str
    commit: Revision
    tree: Revision
    parent: Revision
    blob: Revision
    sha256: Digest
    size_bytes: Size


class SubmitEntry(Record, frozen=True, kw_only=True, tag_field="type", tag="submit"):
    """One plan that was posted: the request, the blob with the plan, and the ref under which is
    written what became of it."""

    request_id: Identity
    ref: str
    plan: Revision
    sha256: Digest
    size_bytes: Size


class BatchEntry(Record, frozen=True, kw_only=True, tag_field="type", tag="dispatch_next"):
    """One request for a fair batch, and the ref under which is written what became of it."""

    request_id: Identity
    ref: str
    pool: Identity
    max_claims: ClaimCount
    max_dispatches: ClaimCount


class NoopEntry(Record, frozen=True, kw_only=True, tag_field="type", tag="noop"):
    """Word that nothing was to be done."""

    reason: str


class OwnEntry(Record, frozen=True, kw_only=True, tag_field="type", tag="own"):
    """One output of a project's own type: the blob with its body under `ref`, what its handler
    prepared, and what the effect touches."""

    output_type: Identity
    ref: str
    blob: Revision
    sha256: Digest
    size_bytes: Size
    data: Payload
    target: Target


Entry = (
    ArtifactEntry
    | PatchEntry
    | NoteEntry
    | MemoryEntry
    | SubmitEntry
    | BatchEntry
    | NoopEntry
    | OwnEntry
)
ControlEntry = SubmitEntry | BatchEntry
_ORDER = {kind: place for place, kind in enumerate((*BUILT_IN, "own"))}


class Descriptor(Record, frozen=True, kw_only=True):
    """A Claim's outputs, by type and within it by name or number."""

    version: Literal[1]
    outputs: Annotated[list[Entry], Meta(max_length=_MAX_OUTPUTS)]


def describe(entries: list[Entry]) -> Descriptor:
    """The descriptor of `entries`, in its one order."""
    return Descriptor(version=1, outputs=sorted(entries, key=_place))


def descriptor_bytes(descriptor: Descriptor) -> bytes:
    """The canonical bytes."""
    return canonical.encode(descriptor)


def read_descriptor(data: bytes) -> Descriptor:
    """The descriptor with these bytes; `descriptor_invalid`, or a codec code."""
    value = canonical.decode(data, limit_bytes=MAX_RESULT_BYTES)
    found = parse(Descriptor, value, what="prepared outputs", code="descriptor_invalid")
    if found.outputs != sorted(found.outputs, key=_place):
        raise CallboardError(
            "descriptor_invalid",
            "the prepared outputs are not in their order",
            "leave refs/callboard/ to Callboard",
        )
    return found


def as_payload(descriptor: Descriptor) -> Payload:
    """The descriptor as the plain JSON object that a Result carries."""
    plain: dict[str, Any] = msgspec.to_builtins(descriptor)
    return plain


def check_size(entries: list[Entry], limit_bytes: int) -> None:
    """Refuse with `result_limit` entries that no Result could carry."""
    size = len(descriptor_bytes(describe(entries)))
    if size > limit_bytes:
        raise CallboardError(
            "result_limit",
            f"the result would take {size} bytes to describe, at most {limit_bytes} are allowed",
            "deliver less at once: fewer outputs, or several files as one archive",
            {"bytes": size, "limit_bytes": limit_bytes},
        )


def artifact_ref(claim_id: str, name: str) -> str:
    """The ref that holds a Claim's artifact of that name."""
    check_name(name)
    return f"{ARTIFACTS}{_component(claim_id)}/{encode_name(name)}"


def prepared_ref(claim_id: str) -> str:
    """The ref whose blob says which outputs a Claim was prepared to deliver."""
    return PREPARED + _component(claim_id)


def _component(claim_id: str) -> str:
    """The Claim's id as one part of a ref that no other Claim has, on any volume.

    Ids that we make stand as they are. Those of other writers may differ in case alone, or be no
    names for a ref: they stand by their digest, which no plain id can look like.
    """
    if _PLAIN_CLAIM.fullmatch(claim_id):
        return claim_id
    return _DIGEST_MARK + canonical.sha256_hex(claim_id.encode("utf-8"))


def patch_branch(work_id: str, attempt: int) -> str:
    """The short name of the branch for an attempt's patch."""
    return f"{BRANCH_FOLDER}{work_id[:_WORK_DIGITS]}-{attempt}"


def memory_branch(name: str, work_id: str, attempt: int) -> str:
    """The short name of the branch for an attempt's memory; `name` is what its recipe calls it."""
    return f"{BRANCH_FOLDER}{MEMORY_FOLDER}{name}/{work_id[:_WORK_DIGITS]}-{attempt}"


def numbered_ref(folder: str, claim_id: str, kind: str, number: int) -> str:
    """The ref of a Claim's `number`-th output of a kind, in one of the folders for such refs."""
    return f"{folder}{_component(claim_id)}/{kind}-{number:03}"


def number_in(ref: str) -> int:
    """The number that `numbered_ref` put into a ref; 0 for any other ref."""
    found = _NUMBERED.search(ref)
    return int(found[1]) if found else 0


def control_request_id(claim_id: str, intent_id: str) -> str:
    """The request that a Claim's staged control becomes; the same whenever it is asked again."""
    name = canonical.encode({"claim_id": claim_id, "intent_id": intent_id})
    return f"w_{canonical.sha256_hex(name)}"


def artifact_estimate(
    claim_id: str, name: str, sha256: str, size_bytes: int, oid_length: int
) -> ArtifactEntry:
    """An entry as large as the real one, before the blob is stored."""
    return ArtifactEntry(
        name=name,
        ref=artifact_ref(claim_id, name),
        blob="0" * oid_length,
        sha256=sha256,
        size_bytes=size_bytes,
    )


def patch_estimate(work_id: str, oid_length: int) -> PatchEntry:
    """An entry at least as large as the real one, before the commit is made."""
    zeros = "0" * oid_length
    branch = patch_branch(work_id, _WIDEST_ATTEMPT)
    return PatchEntry(branch=branch, commit=zeros, tree=zeros, parent=zeros)


def memory_estimate(
    work_id: str, name: str, path: str, output: BodyOutput, oid_length: int
) -> MemoryEntry:
    """An entry at least as large as the real one, before the commit is made."""
    zeros = "0" * oid_length
    return MemoryEntry(
        branch=memory_branch(name, work_id, _WIDEST_ATTEMPT),
        path=path,
        commit=zeros,
        tree=zeros,
        parent=zeros,
        blob=zeros,
        sha256=output.sha256,
        size_bytes=output.size_bytes,
    )


def note_entry(claim_id: str, output: BodyOutput, blob: str) -> NoteEntry:
    """The entry of a note whose text is in `blob`."""
    return NoteEntry(
        ref=numbered_ref(NOTES, claim_id, "note", output.number),
        blob=blob,
        sha256=output.sha256,
        size_bytes=output.size_bytes,
    )


def own_entry(
    claim_id: str, output: BodyOutput, blob: str, data: Payload, target: Target
) -> OwnEntry:
    """The entry of an output of a project's own type, whose body is in `blob`."""
    return OwnEntry(
        output_type=output.type,
        ref=numbered_ref(OWN, claim_id, output.type, output.number),
        blob=blob,
        sha256=output.sha256,
        size_bytes=output.size_bytes,
        data=data,
        target=target,
    )


def submit_entry(claim_id: str, output: BodyOutput, blob: str) -> SubmitEntry:
    """The entry of a plan that is in `blob`."""
    return SubmitEntry(
        request_id=control_request_id(claim_id, output.intent_id),
        ref=numbered_ref(CONTROLS, claim_id, "submit", output.number),
        plan=blob,
        sha256=output.sha256,
        size_bytes=output.size_bytes,
    )


def batch_entry(claim_id: str, output: BatchOutput, pool: str) -> BatchEntry:
    """The entry of a request for a batch of `pool`."""
    return BatchEntry(
        request_id=control_request_id(claim_id, output.intent_id),
        ref=numbered_ref(CONTROLS, claim_id, "batch", output.number),
        pool=pool,
        max_claims=output.max_claims,
        max_dispatches=output.max_dispatches,
    )


def entry_kind(entry: Entry) -> str:
    """The entry's tag."""
    return str(entry.__struct_config__.tag)


def refs_of(entry: Entry) -> dict[str, str | None]:
    """The refs that keep an entry, each with its object; None where only the ref itself tells."""
    if isinstance(entry, ArtifactEntry | NoteEntry):
        return {entry.ref: entry.blob}
    if isinstance(entry, PatchEntry | MemoryEntry):
        return {BRANCHES + entry.branch: entry.commit}
    if isinstance(entry, ControlEntry):
        return {entry.ref: None}
    if isinstance(entry, OwnEntry):
        # What a handler keeps beside the body goes with it; other refs are not ours to carry.
        kept = entry.target.ref
        beside = isinstance(kept, str) and kept.startswith(entry.ref.rpartition("/")[0] + "/")
        return {**({str(kept): None} if beside else {}), entry.ref: entry.blob}
    return {}


def _place(entry: Entry) -> tuple[int, bytes]:
    if isinstance(entry, ArtifactEntry):
        name = entry.name
    elif isinstance(entry, OwnEntry):
        name = entry.ref
    else:
        name = next(iter(refs_of(entry)), "")
    return (_ORDER[entry_kind(entry)], name.encode("utf-8"))
