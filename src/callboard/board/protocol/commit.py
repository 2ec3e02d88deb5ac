"""The envelope: one QueueCommit a line, and the assignment a worker receives.

Source: specification 1, §7.6; wire-v3 §§3, 5. A request is tagged by its kind, so that its
parameters have one closed type each.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from callboard.board.protocol.operations import Actor, Operation, Payload, Work
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import (
    Attempt,
    Digest,
    Identity,
    Revision,
    Timestamp,
)

MAX_OPERATIONS = 256


class OperationsParameters(Record, frozen=True, kw_only=True):
    """Parameters that are the operations themselves."""

    operations: Annotated[list[Operation], Meta(min_length=1, max_length=MAX_OPERATIONS)]


class SubmitParameters(Record, frozen=True, kw_only=True):
    """Complete Work operations, in order."""

    nodes: Annotated[list[Work], Meta(min_length=1, max_length=MAX_OPERATIONS)]


class DispatchNextParameters(Record, frozen=True, kw_only=True):
    """The bounds of a batch of grants; `max_bytes` bounds each assignment."""

    pool: Identity
    max_claims: Annotated[int, Meta(ge=1, le=256)]
    max_dispatches: Annotated[int, Meta(ge=1, le=256)]
    max_bytes: Annotated[int, Meta(ge=1, le=49_152)]
    worker_profiles: Annotated[list[Identity], Meta(max_length=256)] | UnsetType = UNSET


class FinishParameters(Record, frozen=True, kw_only=True):
    """One assigned Claim's outcome as its worker gives it."""

    dispatch_id: Identity
    claim_handle: Identity
    outcome: Literal["completed", "cancelled"]


class CheckpointParameters(Record, frozen=True, kw_only=True):
    """The four digests of a checkpoint."""

    prior_git_sha: Revision
    prior_tip: Identity
    history_sha256: Digest
    state_sha256: Digest


class _Request(Record, frozen=True, kw_only=True, tag_field="kind"):
    id: Identity
    fingerprint: Digest


class PolicyRequest(_Request, frozen=True, kw_only=True, tag="policy"):
    parameters: OperationsParameters


class SubmitRequest(_Request, frozen=True, kw_only=True, tag="submit"):
    parameters: SubmitParameters


class DispatchNextRequest(_Request, frozen=True, kw_only=True, tag="dispatch_next"):
    parameters: DispatchNextParameters


class FinishRequest(_Request, frozen=True, kw_only=True, tag="finish"):
    parameters: FinishParameters


class ObserveRequest(_Request, frozen=True, kw_only=True, tag="observe"):
    parameters: OperationsParameters


class DispatchRequest(_Request, frozen=True, kw_only=True, tag="dispatch"):
    parameters: OperationsParameters


class ResultRequest(_Request, frozen=True, kw_only=True, tag="result"):
    parameters: OperationsParameters


class DeliveryFailureRequest(_Request, frozen=True, kw_only=True, tag="delivery_failure"):
    parameters: OperationsParameters


class ControlRequest(_Request, frozen=True, kw_only=True, tag="control"):
    parameters: OperationsParameters


class DeploymentRequest(_Request, frozen=True, kw_only=True, tag="deployment"):
    parameters: OperationsParameters


class PriorityRequest(_Request, frozen=True, kw_only=True, tag="priority"):
    parameters: OperationsParameters


class ReleaseRequest(_Request, frozen=True, kw_only=True, tag="release"):
    parameters: OperationsParameters


class CancelWorkRequest(_Request, frozen=True, kw_only=True, tag="cancel_work"):
    parameters: OperationsParameters


class CancelClaimRequest(_Request, frozen=True, kw_only=True, tag="cancel_claim"):
    parameters: OperationsParameters


class IssueLinkRequest(_Request, frozen=True, kw_only=True, tag="issue_link"):
    parameters: OperationsParameters


class IssueCommentRequest(_Request, frozen=True, kw_only=True, tag="issue_comment"):
    parameters: OperationsParameters


class CheckpointRequest(_Request, frozen=True, kw_only=True, tag="checkpoint"):
    parameters: CheckpointParameters


Request = (
    PolicyRequest
    | SubmitRequest
    | DispatchNextRequest
    | FinishRequest
    | ObserveRequest
    | DispatchRequest
    | ResultRequest
    | DeliveryFailureRequest
    | ControlRequest
    | DeploymentRequest
    | PriorityRequest
    | ReleaseRequest
    | CancelWorkRequest
    | CancelClaimRequest
    | IssueLinkRequest
    | IssueCommentRequest
    | CheckpointRequest
)

REQUEST_TYPES: dict[str, type[Request]] = {
    str(request.__struct_config__.tag): request for request in Request.__args__
}
"""Request kind -> its record type."""


class Trace(Record, frozen=True, kw_only=True):
    """Correlation for people; never an input to anything."""

    trace_id: Identity | UnsetType = UNSET
    span_id: Identity | UnsetType = UNSET
    publisher_attempt: Attempt | UnsetType = UNSET


class QueueCommit(Record, frozen=True, kw_only=True):
    """One accepted transaction."""

    version: Literal[3]
    id: Identity
    previous: Identity | None
    request: Request
    actor: Actor
    policy_epoch: Identity
    at: Timestamp
    operations: Annotated[list[Operation], Meta(min_length=1, max_length=MAX_OPERATIONS)]
    trace: Trace | UnsetType = UNSET


class ResultReference(Record, frozen=True, kw_only=True):
    """A verified predecessor's output, as a successor receives it."""

    work_id: Digest
    result_commit_id: Identity
    descriptor: Payload


class AssignedClaim(Record, frozen=True, kw_only=True):
    """One member of an assignment: the Work's own payload and its declared inputs."""

    handle: Identity
    claim_id: Identity
    work_id: Digest
    work: Payload
    result_refs: Annotated[list[ResultReference], Meta(max_length=64)]


class Assignment(Record, frozen=True, kw_only=True):
    """What one worker run is asked to do; immutable (§§7.8, 7.14)."""

    version: Literal[3]
    dispatch_id: Identity
    request_id: Identity
    commit_id: Identity
    policy_epoch: Identity
    pool: Identity
    worker_profile: Identity
    claims: Annotated[list[AssignedClaim], Meta(min_length=1, max_length=16)]
