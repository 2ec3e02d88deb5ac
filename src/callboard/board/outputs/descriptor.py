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
from callboard.board.outputs.messages import MAX_RESULT_BYTES
from callboard.board.protocol.operations import Payload
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Digest, Identity, Revision
from callboard.board.protocol.validate import parse
from callboard.errors import CallboardError

ARTIFACTS = "refs/callboard/artifacts/"
PREPARED = "refs/callboard/prepared/"
BRANCHES = "refs/heads/"
BRANCH_FOLDER = "callboard/"
_PLAIN_CLAIM = re.compile(r"c_[0-9a-f]{1,128}(?:_[0-9]{1,10})?")
_DIGEST_MARK = "sha256-"
_WORK_DIGITS = 12
_WIDEST_ATTEMPT = 16
_MAX_OUTPUTS = 256


class ArtifactEntry(Record, frozen=True, kw_only=True, tag_field="type", tag="artifact"):
    """One stored artifact: the blob under `ref`, its SHA-256 and its size."""

    name: str
    ref: str
    blob: Revision
    sha256: Digest
    size_bytes: Annotated[int, Meta(ge=0, le=canonical.MAX_SAFE_INTEGER)]


class PatchEntry(Record, frozen=True, kw_only=True, tag_field="type", tag="patch"):
    """One delivered commit: the short name of its branch, its tree and its one parent."""

    branch: Identity
    commit: Revision
    tree: Revision
    parent: Revision


Entry = ArtifactEntry | PatchEntry


class Descriptor(Record, frozen=True, kw_only=True):
    """A Claim's outputs, artifacts by name before the patch."""

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
            "deliver fewer files; put several into one archive",
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


def _place(entry: Entry) -> tuple[int, bytes]:
    if isinstance(entry, ArtifactEntry):
        return (0, entry.name.encode("utf-8"))
    return (1, entry.branch.encode("utf-8"))
