"""`assignment.json`: everything one attempt is given. Frozen before the role starts.

Source: layers.md §3. It is the only record with paths of this machine in it.
"""

from __future__ import annotations

from typing import Literal

from callboard.layers.records.base import (
    Count,
    Id,
    Key,
    Name,
    Path,
    Positive,
    Record,
    Ref,
    Sha256,
    Text,
    Texts,
)
from callboard.layers.records.session import GoalContract


class AttemptIdentity(Record, frozen=True, kw_only=True):
    """Who is asked to do what."""

    root_session_id: Id
    session_id: Id
    parent_session_id: Id | None
    depth: Count
    workflow_set: Name
    role: Name
    iteration: Positive
    attempt_id: Id
    request_id: Key | None = None
    """The request that this layer was made from."""
    work_item_id: Key | None = None


class AcceptedInput(Record, frozen=True, kw_only=True):
    """A file that was frozen into this layer."""

    ref: Ref
    sha256: Sha256
    size_bytes: Count


class Provenance(Record, frozen=True, kw_only=True):
    """What the attempt was frozen from."""

    state_revision: Positive
    config_sha256: Sha256
    prompt_sha256: Sha256
    rendered_prompt_sha256: Sha256
    contract_sha256: Sha256
    goal_sha256: Sha256
    goal_contract_sha256: Sha256
    git_head: str | None


class Paths(Record, frozen=True, kw_only=True):
    """Where things lie on this machine, for this attempt only. `child_requests` is `pending`."""

    repository: Path
    session_root: Path
    project_state: Path
    children_index: Path
    children_root: Path
    child_requests: Path
    child_outcomes: Path
    parent_acceptance: Path
    control: Path
    eval_checks: Path
    eval_readiness: Path
    eval_receipts: Path
    git_receipts: Path
    delivery_receipts: Path
    inputs: Path
    attempt_root: Path
    trace_root: Path


class Assignment(Record, frozen=True, kw_only=True):
    """The envelope of one attempt."""

    schema_version: Literal[1]
    identity: AttemptIdentity
    goal: GoalContract
    inputs: tuple[AcceptedInput, ...]
    updates: Texts
    """What the user added since the last attempt, the oldest first."""
    responsibility: Text
    expected_outputs: Texts
    provenance: Provenance
    paths: Paths
