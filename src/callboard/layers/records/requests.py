"""Asking for a child layer: the snapshot, the request, what was decided, and the index.

Source: specification 3; layers.md §§3, 4. The request id is the key, never a file's name.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from callboard.layers.records.base import (
    Id,
    Key,
    Name,
    Positive,
    Record,
    Ref,
    Sha256,
    Text,
    Texts,
    Time,
)
from callboard.layers.records.session import MAX_CHILDREN
from callboard.layers.records.state import Status, StopReason, Usage


class Input(Record, frozen=True, kw_only=True):
    """A file that the child is to have, with the digest of its exact bytes."""

    ref: Ref
    sha256: Sha256


class ChildScope(Record, frozen=True, kw_only=True):
    """What a child layer is to do; derived from one item, never the parent's own criteria."""

    goal: Text
    completion_criteria: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1, max_length=500)]
    stop_criteria: Texts
    constraints: Texts
    deliverables: Texts
    required_evidence: Texts


class Origin(Record, frozen=True, kw_only=True):
    """Where a request comes from."""

    parent_attempt_id: Id
    parent_work_item_id: Key
    supersedes_request_id: Key | None


class ChildRequest(Record, frozen=True, kw_only=True):
    """A child request, version 2: a file of `child_requests/pending`."""

    schema_version: Literal[2]
    request_id: Key
    workflow_set: Name
    origin: Origin
    assignment: ChildScope
    inputs: Annotated[tuple[Input, ...], msgspec.Meta(max_length=200)]


class DispatchSnapshot(Record, frozen=True, kw_only=True):
    """`project_state/dispatch_inputs/<request_id>.json`: why this child was chosen. Immutable.

    Nothing in it depends on the attempt that wrote it, so that after a crash its bytes tell
    whether it still describes the same request.
    """

    schema_version: Literal[1]
    request_id: Key
    session_id: Id
    work_item_id: Key
    title: Text
    workflow_set: Name
    supersedes_request_id: Key | None
    child_scope: ChildScope
    decision_refs: tuple[Ref, ...]
    evidence_refs: tuple[Ref, ...]
    input_inventory: tuple[Input, ...]


class Acceptance(Record, frozen=True, kw_only=True):
    """`child_requests/accepted/<request_id>.receipt.json`: that the request became a child."""

    schema_version: Literal[1]
    request_id: Key
    body_sha256: Sha256
    file_name: Text
    child_session_id: Id
    work_item_id: Key
    attempt_id: Id
    decided_at_ms: Time


class Rejection(Record, frozen=True, kw_only=True):
    """`child_requests/rejected/<name>.receipt.json`: why a file became no child.

    `request_id` is None where the file says none. `body_sha256` is None where it has no bytes
    that could be read (a link, a folder, a pipe).
    """

    schema_version: Literal[1]
    file_name: Text
    request_id: Key | None
    body_sha256: Sha256 | None
    kept_as: Text | None
    """The name of the unchanged body beside the receipt."""
    code: Text
    reason: Text
    attempt_id: Id | None
    decided_at_ms: Time


MAX_ENTRY_BYTES = 2048
"""More than one child takes in the index, with each field as long as it may be."""
MAX_INDEX_BYTES = MAX_CHILDREN * MAX_ENTRY_BYTES + 1024
"""Of an index with as many children as a layer may ever have."""


class ChildEntry(Record, frozen=True, kw_only=True):
    """One child in `children.json`."""

    request_id: Key
    session_id: Id
    work_item_id: Key
    body_sha256: Sha256
    status: Status
    stop_reason: StopReason | None
    outcome_ref: Ref | None
    usage: Usage
    accepted_at_ms: Time


class ChildrenIndex(Record, frozen=True, kw_only=True):
    """`children.json`: all children of a layer, in the order of their acceptance."""

    schema_version: Literal[1]
    revision: Positive
    children: tuple[ChildEntry, ...]
