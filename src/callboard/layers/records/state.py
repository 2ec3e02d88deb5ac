"""`state.json`: where a layer stands. The coordinator alone writes it, one revision at a time.

Source: layers.md §§2, 4.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from callboard.canonical import MAX_SAFE_INTEGER
from callboard.layers.records.base import Count, Id, Key, Name, Positive, Record, Sha256, Text, Time

Status = Literal["running", "goal_met", "unresolvable_error", "stopped"]
StopReason = Literal[
    "goal_met",
    "unresolvable_error",
    "max_turns",
    "role_failures",
    "invalid_control",
    "failed_goal_checks",
    "cost_cap",
    "user_stop",
    "no_role",
    "inputs_lost",
]
Phase = Literal["ready", "executing", "suspended", "terminal"]


class Task(Record, frozen=True, kw_only=True):
    """The attempt that is under way; its folder is `attempts/<attempt_id>`."""

    attempt_id: Id
    role: Name
    iteration: Positive
    assignment_sha256: Sha256
    updates_to: Count = 0
    """How many updates the layer has been told once this attempt has succeeded."""
    updates_sha256: Sha256 | None = None
    """The digest of so many updates, by which they are known again."""
    work_item_id: Key | None = None


class Child(Record, frozen=True, kw_only=True):
    """The one live child layer."""

    session_id: Id
    request_id: Key


class Usage(Record, frozen=True, kw_only=True):
    """What attempts cost. Sums are exact, up to the largest number that a record can hold."""

    attempts: Count = 0
    duration_ms: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_microusd: Count = 0

    def plus(self, other: Usage) -> Usage:
        """The sum of two."""
        # What a harness says that it used may be any number, and must not stop its layer.
        return Usage(
            attempts=_sum(self.attempts, other.attempts),
            duration_ms=_sum(self.duration_ms, other.duration_ms),
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            cost_microusd=_sum(self.cost_microusd, other.cost_microusd),
        )


def _sum(one: int, other: int) -> int:
    return min(one + other, MAX_SAFE_INTEGER)


class RoleHistory(Record, frozen=True, kw_only=True):
    """What one role did in this layer so far."""

    runs: Count = 0
    successes: Count = 0
    failures_in_row: Count = 0
    last_iteration: Count = 0
    """0: it never ran."""
    seen_successes: dict[Name, Count] = msgspec.field(default_factory=dict)
    """Of each other role, how many successes there were when this one ran last."""


class State(Record, frozen=True, kw_only=True):
    """Where a layer stands. `iteration` counts the attempts that were begun."""

    schema_version: Literal[1]
    session_id: Id
    revision: Positive
    status: Status
    stop_reason: StopReason | None = None
    stop_detail: Text | None = None
    iteration: Count = 0
    last_role: Name | None = None
    last_succeeded: bool = False
    task: Task | None = None
    child: Child | None = None
    roles: dict[Name, RoleHistory] = msgspec.field(default_factory=dict)
    invalid_controls: Count = 0
    failed_goal_checks: Count = 0
    controls_seen: tuple[Sha256, ...] = ()
    """Digests of control files that were followed."""
    children_made: Count = 0
    own_usage: Usage = Usage()
    rolled_usage: Usage = Usage()
    """Of children that ended, each with all below it."""
    rolled_sessions: tuple[Id, ...] = ()
    """The children whose usage is in `rolled_usage`."""
    updates_delivered: Count = 0
    """How many updates were given to attempts that succeeded."""
    updates_sha256: Sha256 | None = None
    """The digest of those updates; where others are the first ones now, all count as new."""
    changed_at_ms: Time

    @property
    def phase(self) -> Phase:
        """What the layer may do next."""
        if self.status != "running":
            return "terminal"
        if self.task is not None:
            return "executing"
        return "ready" if self.child is None else "suspended"

    @property
    def usage(self) -> Usage:
        """Of the layer with all below it that ended."""
        return self.own_usage.plus(self.rolled_usage)
