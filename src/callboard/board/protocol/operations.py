"""The operations a commit may hold, one closed record a kind.

Source: specification 1, §7.6 (operation union), §§7.8, 7.15, 7.16; wire-v3 §5. Types only.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from callboard.board.protocol.policy import PolicyDocument, Profile, Record
from callboard.board.protocol.scalars import (
    Attempt,
    Decimal,
    Digest,
    FairnessKey,
    FirstAttempt,
    Identity,
    Priority,
    ReasonCode,
    RepositoryName,
    Revision,
    Timestamp,
)

Payload = dict[str, Any]
"""An immutable JSON object within the codec's profile."""


DigestOrNone = Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{64})?\Z")]
"""A digest, or the empty string of a profile that has none."""


class Actor(Record, frozen=True, kw_only=True):
    """Who asked, as the trusted boundary says; provenance, not authentication (§7.7)."""

    role: Literal["administrator", "producer", "dispatcher", "worker", "reconciler", "projector"]
    principal: Decimal
    repository: RepositoryName
    workflow: Identity | UnsetType = UNSET
    run_id: Decimal | UnsetType = UNSET
    run_attempt: Attempt | UnsetType = UNSET
    dispatch_id: Identity | UnsetType = UNSET
    claim_handle: Identity | UnsetType = UNSET


class Resource(Record, frozen=True, kw_only=True):
    """An issue or pull request: identity (ids) beside display coordinates."""

    kind: Literal["issue", "pull_request"]
    host: Identity
    repository: RepositoryName
    repository_id: Identity
    resource_id: Identity
    number: Decimal


class WorkDependency(Record, frozen=True, kw_only=True, tag_field="kind", tag="work"):
    """A predecessor in the same graph; satisfied by its verified Result."""

    work_id: Digest


class IssueDependency(Record, frozen=True, kw_only=True, tag_field="kind", tag="issue"):
    """A gate on an issue's state."""

    resource: Resource
    condition: Literal["completed", "closed"]


class PullRequestDependency(
    Record, frozen=True, kw_only=True, tag_field="kind", tag="pull_request"
):
    """A gate on a merge."""

    resource: Resource
    condition: Literal["merged"]


Gate = IssueDependency | PullRequestDependency
Dependency = WorkDependency | IssueDependency | PullRequestDependency


class Run(Record, frozen=True, kw_only=True):
    """A worker run as its host knows it."""

    run_id: Decimal
    run_attempt: FirstAttempt
    repository: RepositoryName
    workflow: Identity
    ref: Revision
    principal: Decimal
    event: Literal["workflow_dispatch", "host_dispatch"]


class Evidence(Record, frozen=True, kw_only=True):
    """What a trusted source says about a run or a delivery."""

    kind: Literal["prelaunch", "nonlaunch", "terminal_run", "delivery", "reconciliation"]
    source: Literal[
        "trusted_publisher", "github_api", "trusted_activation", "verified_receipts", "host_api"
    ]
    repository: RepositoryName
    workflow: Identity
    ref: Revision
    principal: Decimal
    checked_at: Timestamp
    run_id: Decimal | UnsetType = UNSET
    run_attempt: FirstAttempt | UnsetType = UNSET
    status: Literal["completed"] | UnsetType = UNSET
    conclusion: ReasonCode | UnsetType = UNSET
    receipt: Identity | UnsetType = UNSET
    attempts: Annotated[int, Meta(ge=1, le=4096)] | UnsetType = UNSET
    effects: Literal["none", "partial", "unknown"] | UnsetType = UNSET


class Replacement(Record, frozen=True, kw_only=True):
    """Lineage of a node that stands in for a delivery-failed one (§7.15)."""

    work_id: Digest
    disposition: Literal["idempotent", "compensated", "inspection"]
    evidence: Evidence


class Policy(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Installs a scheduling epoch."""

    epoch: Identity
    policy: PolicyDocument


class Work(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Admits one immutable task; its first position in the chain is its FIFO place."""

    work_id: Digest
    graph_id: Identity
    node_key: Identity
    pool: Identity
    priority: Priority
    fairness_key: FairnessKey
    worker_profile: Identity
    batch_trust_domain: Identity
    payload: Payload
    depends_on: Annotated[list[Dependency], Meta(max_length=64)]
    enqueued: Timestamp
    subject: Resource | UnsetType = UNSET
    replacement_of: Replacement | UnsetType = UNSET
    logical_contract: Digest | UnsetType = UNSET
    execution_ref: Revision | UnsetType = UNSET
    backing_issue: Resource | UnsetType = UNSET

    @property
    def predecessors(self) -> list[str]:
        """The Work it waits for, by identity, in edge order."""
        return [one.work_id for one in self.depends_on if isinstance(one, WorkDependency)]

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The gates it waits for, in edge order."""
        return tuple(one for one in self.depends_on if not isinstance(one, WorkDependency))


class Claim(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Grants, charges and reserves one attempt at one Work."""

    work_id: Digest
    claim_id: Identity
    dispatch_id: Identity
    handle: Identity
    observations: Annotated[list[Identity], Meta(max_length=64)]


class Completion(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Terminal ownership of a Work by one Claim; delivery is still to be verified."""

    work_id: Digest
    claim_id: Identity
    dispatch_id: Identity
    claim_handle: Identity
    run_id: Decimal
    run_attempt: FirstAttempt


class Dispatch(Record, frozen=True, kw_only=True, tag_field="kind"):
    """One step of a group's launch."""

    dispatch_id: Identity
    state: Literal["started", "bound", "rejected", "uncertain", "unresolved"]
    sender: Actor | UnsetType = UNSET
    credential_principal: Decimal | UnsetType = UNSET
    run: Run | UnsetType = UNSET
    evidence: Evidence | UnsetType = UNSET
    reason: ReasonCode | UnsetType = UNSET


class Result(Record, frozen=True, kw_only=True, tag_field="kind"):
    """The verified outputs of a completed Work; lets successors go."""

    work_id: Digest
    claim_id: Identity
    completion_id: Identity
    descriptor: Payload
    evidence: Evidence


class DeliveryFailure(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Gives up on a completed Work's delivery, with what is known of its effects."""

    work_id: Digest
    claim_id: Identity
    completion_id: Identity
    reason: ReasonCode
    disposition: Literal["none", "partial", "unknown"]
    evidence: Evidence


class Observation(Record, frozen=True, kw_only=True, tag_field="kind"):
    """What a trusted reader saw of a gate's resource."""

    observation_id: Identity
    resource: Resource
    condition: Literal["completed", "closed", "merged"]
    state: Literal["ready", "waiting", "failed", "unknown"]
    observed_at: Timestamp
    credential_generation: Identity
    source_updated_at: Timestamp | Identity | UnsetType = UNSET
    read_status: ReasonCode
    state_reason: Literal["completed", "not_planned", "reopened"] | UnsetType = UNSET
    resource_state: Literal["open", "closed"] | UnsetType = UNSET
    merged: bool | UnsetType = UNSET
    merge_commit: Revision | UnsetType = UNSET


class ClaimCancellation(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Ends one Claim; the Work may be granted again from `retry_not_before` on."""

    work_id: Digest
    claim_id: Identity
    reason: ReasonCode
    retry_not_before: Timestamp


class WorkCancellation(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Ends a Work for good; `claim_id` fences the owner the caller saw."""

    work_id: Digest
    reason: ReasonCode
    claim_id: Identity | UnsetType = UNSET


class Release(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Frees a group's native reservation, once, on proof that nothing runs."""

    dispatch_id: Identity
    evidence: Evidence


class Control(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Pauses or resumes admission or grants, or records a credential generation."""

    control: Literal["admission_paused", "grants_paused", "credential_generation"]
    value: bool | Identity
    reason: ReasonCode


class Deployment(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Prospective worker revision or availability, by compare-and-set."""

    pool: Identity
    worker_profile: Identity
    expected_ref: Revision
    expected_contract: DigestOrNone
    profile: Profile
    available: bool
    activate: bool | UnsetType = UNSET
    reason: ReasonCode


class WorkPriority(Record, frozen=True, kw_only=True, tag_field="kind"):
    """An operator's priority for future charges of one available Work."""

    work_id: Digest
    priority: Priority
    expected_priority: Priority
    reason: ReasonCode


class IssueLink(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Ties a Work to its mirrored issue."""

    work_id: Digest
    resource: Resource
    projector_ref: Revision
    claim_id: Identity | UnsetType = UNSET


class IssueComment(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Records a mirrored comment of a Work or Claim."""

    work_id: Digest
    comment_id: Decimal
    projector_ref: Revision
    claim_id: Identity | UnsetType = UNSET
    authority_claim_id: Identity | UnsetType = UNSET


class Checkpoint(Record, frozen=True, kw_only=True, tag_field="kind"):
    """A root commit's state, standing for the history it names."""

    prior_git_sha: Revision
    prior_tip: Identity
    history_sha256: Digest
    state_sha256: Digest
    state: Payload


Operation = (
    Policy
    | Work
    | Claim
    | Completion
    | Dispatch
    | Result
    | DeliveryFailure
    | Observation
    | ClaimCancellation
    | WorkCancellation
    | Release
    | Control
    | Deployment
    | WorkPriority
    | IssueLink
    | IssueComment
    | Checkpoint
)
