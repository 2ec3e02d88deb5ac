"""A workflow set as a layer froze it: its roles, how they are chosen, what each may do.

Source: layers.md §§1, 4, 5.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from callboard.layers.records.base import Count, Name, Positive, Record, Sha256, Text, Texts
from callboard.layers.records.wording import worded

Argument = Annotated[
    str,
    msgspec.Meta(
        max_length=4096,
        pattern=worded(r"^[^\x00]*(?![\s\S])", "an argument without the character NUL"),
    ),
]
Variable = Annotated[
    str,
    msgspec.Meta(
        pattern=worded(
            r"^[A-Za-z_][A-Za-z0-9_]{0,127}(?![\s\S])",
            "the name of a variable: at most 128 letters, digits and `_`, no digit first",
        )
    ),
]


PLACEHOLDERS = ("assignment", "prompt_file")
"""Words that stand for paths in the arguments of a command, in braces."""


class Harness(Record, frozen=True, kw_only=True):
    """The command that carries out an attempt. Times in seconds.

    `{prompt_file}` and `{assignment}` in an argument stand for absolute paths; the prompt is on
    standard input as well. `environment` names the variables that are let through.
    """

    command: Annotated[tuple[Argument, ...], msgspec.Meta(min_length=1, max_length=200)]
    timeout_s: Positive = 3600
    grace_s: Count = 10
    environment: tuple[Variable, ...] = ()
    transient_exit_codes: tuple[Annotated[int, msgspec.Meta(ge=1, le=255)], ...] = (75,)
    log_limit_bytes: Positive = 16 * 1024 * 1024


class AfterSuccesses(Record, frozen=True, kw_only=True):
    """A role comes up when another one has succeeded `count` times since it ran last."""

    role: Name
    count: Positive


class RoleConfig(Record, frozen=True, kw_only=True):
    """`workflows/<role>/config.yaml`: when a role is chosen, and what carries it out."""

    enabled: bool = True
    priority: Annotated[int, msgspec.Meta(ge=-1000, le=1000)] = 0
    """The greater one goes first; the order of the contract decides between equals."""
    run_on_start: bool = False
    """Before anything else has run."""
    run_every: Positive | None = None
    """At least so many iterations after it ran last."""
    must_follow: Name | None = None
    """Only right after a successful attempt of this role."""
    run_after_successes: AfterSuccesses | None = None
    not_before_iteration: Count = 0
    harness: Harness
    responsibility: Text
    expected_outputs: Texts = ()


class FrozenRole(Record, frozen=True, kw_only=True):
    """A role within `workflow_contract.json`."""

    name: Name
    config: RoleConfig
    config_sha256: Sha256
    prompt_sha256: Sha256


class Caps(Record, frozen=True, kw_only=True):
    """What ends a layer that gets nowhere; None: no such end."""

    max_turns: Positive | None = 200
    max_role_failures: Positive = 3
    """In a row, of one role."""
    max_invalid_controls: Positive = 3
    max_failed_goal_checks: Positive = 10
    max_cost_microusd: Positive | None = None
    """Of the layer with all below it."""


class WorkflowContract(Record, frozen=True, kw_only=True):
    """`workflow_contract.json`: the set as the layer runs it. Frozen when the layer is made."""

    schema_version: Literal[1]
    workflow_set: Name
    description: Text
    roles: Annotated[tuple[FrozenRole, ...], msgspec.Meta(min_length=1, max_length=50)]
    goal_control_roles: tuple[Name, ...]
    """Who may say `goal_met`."""
    blocker_roles: tuple[Name, ...]
    """Who may say `unresolvable_error`."""
    request_roles: tuple[Name, ...]
    """Who may ask for a child layer."""
    acceptance_roles: tuple[Name, ...]
    """Who may judge what a child layer came to."""
    evaluation_roles: tuple[Name, ...]
    """Who may make an eval receipt."""
    caps: Caps
    recovery: Literal["drain", "reap"]
    """What becomes of what an attempt left running when its runner died: `drain` awaits it for the
    rest of the harness's time, `reap` ends it at once. On Linux the harness's own process has gone
    with its runner already."""
