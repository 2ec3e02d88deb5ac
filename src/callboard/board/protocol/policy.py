"""The Policy record: scheduling economics and approved worker profiles.

Source: specification 1, §§7.1, 7.2, 7.10, 7.17; wire-v3 §5. Types only; the rules that relate one
field to another stand in `rules.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from callboard.board.protocol.scalars import (
    ClaimBound,
    CountBound,
    Decimal,
    Digest,
    Duration,
    FairnessKey,
    Identity,
    Priority,
    RepositoryName,
    Revision,
    Weight,
    WorkflowPath,
)


class Record(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
):
    """A closed, immutable wire object; an unset optional field is absent on the wire."""


class Retry(Record, frozen=True, kw_only=True):
    """Attempts before Completion: how many, and the pause in ms after each."""

    max_attempts: Annotated[int, Meta(ge=1, le=16)]
    backoff_ms: Duration


class Reconciliation(Record, frozen=True, kw_only=True):
    """Delivery and launch reconciliation: how many attempts, and the deadline in ms."""

    max_attempts: Annotated[int, Meta(ge=1, le=64)]
    deadline_ms: Duration


class Profile(Record, frozen=True, kw_only=True):
    """One approved worker: which recipe, at which revision, with which batch bounds."""

    workflow: WorkflowPath
    ref: Revision
    principal: Decimal | UnsetType = UNSET
    trust_domain: Identity
    credential_scope: Identity
    effect_scope: Identity
    max_claims: ClaimBound
    share_keys: bool
    logical_contract: Digest | UnsetType = UNSET


class Pool(Record, frozen=True, kw_only=True):
    """One competition domain with its capacity, retry and reconciliation bounds."""

    default_profile: Identity
    profiles: Annotated[dict[Identity, Profile], Meta(min_length=1, max_length=256)]
    logical_limit: CountBound
    native_limit: CountBound
    per_account_limit: CountBound | UnsetType = UNSET
    allowed_repositories: Annotated[list[RepositoryName], Meta(max_length=4096)]
    max_observation_age_ms: Duration
    retry: Retry
    reconciliation: Reconciliation


class Producer(Record, frozen=True, kw_only=True):
    """What a listed producer may submit, under a policy that enrols producers."""

    pools: Annotated[list[Identity], Meta(max_length=64)]
    priorities: Annotated[list[Priority], Meta(max_length=5)]
    fairness_keys: Annotated[list[FairnessKey], Meta(max_length=1024)]


class Limits(Record, frozen=True, kw_only=True):
    """Byte and count bounds; each may be lowered, never raised above its ceiling."""

    ledger_bytes: Annotated[int, Meta(ge=1, le=67_108_864)]
    recovery_bytes: Annotated[int, Meta(ge=1, le=16_777_216)]
    payload_bytes: Annotated[int, Meta(ge=1, le=16_384)]
    graph_nodes: CountBound
    predecessors: Annotated[int, Meta(ge=1, le=64)]
    pending_nodes: CountBound
    operations: Annotated[int, Meta(ge=1, le=256)]
    assignment_bytes: Annotated[int, Meta(ge=1, le=49_152)]
    result_bytes: Annotated[int, Meta(ge=1, le=4096)]
    evidence_bytes: Annotated[int, Meta(ge=1, le=1024)]
    observation_writes: CountBound


CEILINGS = Limits(
    ledger_bytes=67_108_864,
    recovery_bytes=16_777_216,
    payload_bytes=16_384,
    graph_nodes=4096,
    predecessors=64,
    pending_nodes=4096,
    operations=256,
    assignment_bytes=49_152,
    result_bytes=4096,
    evidence_bytes=1024,
    observation_writes=4096,
)


class Projector(Record, frozen=True, kw_only=True):
    """Who may link and comment backing issues, and for which pools.

    The last two fields belong to hosts with issues; here they are kept as they are.
    """

    principal: Decimal
    workflow: Identity
    ref: Revision
    pools: Annotated[list[Identity], Meta(max_length=64)]
    repositories: Annotated[list[RepositoryName], Meta(max_length=4096)]
    backing_issues: Any = UNSET
    completion_policy: Any = UNSET


Mode = Literal["weighted-priority", "strict-priority"]


class PolicyDocument(Record, frozen=True, kw_only=True):
    """The installed economics of one epoch."""

    mode: Mode
    class_weights: Annotated[list[Weight], Meta(min_length=5, max_length=5)]
    accounting_weights: Annotated[dict[FairnessKey, Weight], Meta(min_length=1, max_length=1024)]
    authorization: Literal["aw"] | UnsetType = UNSET
    producers: Annotated[dict[Decimal, Producer], Meta(max_length=4096)]
    pools: Annotated[dict[Identity, Pool], Meta(min_length=1, max_length=64)]
    limits: Limits
    projectors: dict[Identity, Projector] | list[Projector] | UnsetType = UNSET

    @property
    def is_aw(self) -> bool:
        """Whether the host authenticates participants, so that none is enrolled here."""
        return self.authorization == "aw"
