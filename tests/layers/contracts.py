"""Contracts and states for tests of what is decided on them, made without reading any file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callboard.layers.records.assignment import Provenance
from callboard.layers.records.state import State
from callboard.layers.records.workflow import (
    AfterSuccesses,
    Caps,
    FrozenRole,
    Harness,
    RoleConfig,
    WorkflowContract,
)

SHA = "sha256:" + "0" * 64
PROVENANCE = Provenance(
    state_revision=1,
    config_sha256=SHA,
    prompt_sha256=SHA,
    rendered_prompt_sha256=SHA,
    contract_sha256=SHA,
    goal_sha256=SHA,
    goal_contract_sha256=SHA,
    git_head=None,
)
"""Of an attempt whose files nobody looks at."""

ONE_WORKER = """description: Does the work.
roles: [worker]
goal_control_roles: [worker]
blocker_roles: []
request_roles: []
acceptance_roles: []
evaluation_roles: [worker]
recovery: reap
"""
"""The contract of a set whose only role may do everything."""


def role(name: str, *, after: tuple[str, int] | None = None, **config: Any) -> FrozenRole:
    return FrozenRole(
        name=name,
        config=RoleConfig(
            harness=Harness(command=("true",)),
            responsibility="does its part",
            run_after_successes=None
            if after is None
            else AfterSuccesses(role=after[0], count=after[1]),
            **config,
        ),
        config_sha256=SHA,
        prompt_sha256=SHA,
    )


def contract(*roles: FrozenRole, caps: Mapping[str, Any] | None = None) -> WorkflowContract:
    return WorkflowContract(
        schema_version=1,
        workflow_set="tried",
        description="a set of a test",
        roles=roles,
        goal_control_roles=(roles[0].name,),
        blocker_roles=(),
        request_roles=(),
        acceptance_roles=(),
        evaluation_roles=(roles[0].name,),
        caps=Caps(**(caps or {})),
        recovery="drain",
    )


def state(**fields: Any) -> State:
    return State(
        schema_version=1, session_id="s", revision=1, status="running", changed_at_ms=0, **fields
    )
