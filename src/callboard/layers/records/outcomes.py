"""What a child layer came to, and, apart from it, what its parent thinks of that.

Source: specification 3; layers.md §§3, 4. An outcome is a fact and never an acceptance.
"""

from __future__ import annotations

from typing import Literal

from callboard.layers.records.base import Id, Key, Record, Ref, Sha256, Text, Texts, Time
from callboard.layers.records.state import Status, StopReason, Usage


class EvidenceRef(Record, frozen=True, kw_only=True):
    """A file of the child that speaks for what it did."""

    ref: Ref
    sha256: Sha256


class Completeness(Record, frozen=True, kw_only=True):
    """Which kinds of evidence are there; no judgement of what is in them."""

    eval_receipt: bool
    git_receipt: bool
    delivery_receipt: bool
    usage: bool
    traces_sealed: bool


class ChildOutcome(Record, frozen=True, kw_only=True):
    """`child_outcomes/<request_id>.json`: the end of a child layer, as facts."""

    schema_version: Literal[1]
    request_id: Key
    session_id: Id
    work_item_id: Key
    goal_id: Id
    goal_contract_sha256: Sha256
    status: Status
    stop_reason: StopReason | None
    stop_detail: Text | None
    usage: Usage
    evidence: tuple[EvidenceRef, ...]
    completeness: Completeness
    ended_at_ms: Time


Decision = Literal["accepted", "rework", "reroute", "blocked"]


class ParentAcceptance(Record, frozen=True, kw_only=True):
    """`parent_acceptance/<request_id>.json`: the parent's judgement of an outcome."""

    schema_version: Literal[1]
    request_id: Key
    work_item_id: Key
    decision: Decision
    rationale: Text
    evidence_reviewed: tuple[EvidenceRef, ...]
    outcome_sha256: Sha256
    superseding_request_id: Key | None = None
    open_points: Texts = ()
    decided_by: Text
    """The attempt id, or `user`."""
    decided_at_ms: Time
