"""What a layer is: its identity, its goal, and the limits of the whole tree. Never changed.

Source: layers.md §§1–3.
"""

from __future__ import annotations

from typing import Literal

from callboard.layers.records.base import (
    Count,
    Id,
    Key,
    Name,
    Positive,
    Record,
    Sha256,
    Text,
    Texts,
    Time,
)

MAX_CHILDREN = 10_000
"""No layer may be allowed more: all of them stand in one index."""
MAX_DESCENDANTS = 100_000
"""No tree may be allowed more."""


class Limits(Record, frozen=True, kw_only=True):
    """Frozen in the root's `session.json`; no child can raise one. Depth of the root is 0."""

    max_depth: Count = 8
    max_children: Positive = 200
    """Child layers that one layer may have had, over its life."""
    max_descendants: Count = 1000
    """Layers below the root, over its life."""


class RepositoryIdentity(Record, frozen=True, kw_only=True):
    """`layers/repository.json`: which checkout this is."""

    schema_version: Literal[1]
    repository_id: Id
    created_at_ms: Time


class GoalContract(Record, frozen=True, kw_only=True):
    """`goal_contract.json`: what the layer is to reach, and how one sees that it did."""

    schema_version: Literal[1]
    goal_id: Id
    goal: Text
    completion_criteria: Texts
    stop_criteria: Texts = ()
    constraints: Texts = ()
    deliverables: Texts = ()
    required_evidence: Texts = ()


class Session(Record, frozen=True, kw_only=True):
    """`session.json`: who this layer is. The root has no parent, no request and the limits."""

    schema_version: Literal[1]
    session_id: Id
    root_session_id: Id
    parent_session_id: Id | None
    depth: Count
    workflow_set: Name
    repository_id: Id
    request_id: Key | None
    parent_work_item_id: Key | None
    limits: Limits | None
    goal_sha256: Sha256
    goal_contract_sha256: Sha256
    workflow_contract_sha256: Sha256
    created_at_ms: Time
