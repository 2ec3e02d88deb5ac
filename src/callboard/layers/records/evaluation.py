"""Checks of a layer's goal, and the receipt of having run them.

Source: layers.md §§3, 4. A receipt speaks of one goal, one state of the repository and exact
check files; for another state it says nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from callboard.layers.records.base import (
    Count,
    Id,
    Name,
    Positive,
    Record,
    Ref,
    Sha256,
    Text,
    Time,
)
from callboard.layers.records.workflow import Argument


class GitSubject(Record, frozen=True, kw_only=True):
    """The state of a repository: its HEAD, and a digest of all that differs from it.

    `dirty` begins with the version of the rule that made it, such as `dirty-1:sha256:…`; it is
    None in a repository without changes. `head` is None before the first commit.
    """

    head: str | None
    dirty: str | None


class CommandCheck(Record, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    """A check that a command carries out. `cwd` is relative to the repository."""

    check_id: Id
    title: Text
    command: Annotated[tuple[Argument, ...], msgspec.Meta(min_length=1, max_length=200)]
    cwd: str = "."
    timeout_s: Positive = 600
    expected_exit: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    criteria: tuple[Text, ...] = ()


class JudgeCheck(Record, frozen=True, kw_only=True, tag_field="kind", tag="judge"):
    """A check that a command judges: it gets question and evidence, and answers in JSON."""

    check_id: Id
    title: Text
    question: Text
    evidence: tuple[Ref, ...] = ()
    command: Annotated[tuple[Argument, ...], msgspec.Meta(min_length=1, max_length=200)]
    timeout_s: Positive = 600
    criteria: tuple[Text, ...] = ()


Check = CommandCheck | JudgeCheck


class JudgeAnswer(Record, frozen=True, kw_only=True):
    """What a judge writes to its standard output."""

    verdict: Literal["pass", "fail"]
    rationale: Text


class CheckResult(Record, frozen=True, kw_only=True):
    """What came of one check."""

    check_id: Id
    file: Text
    sha256: Sha256
    kind: Literal["command", "judge"]
    verdict: Literal["pass", "fail", "error"]
    detail: Text
    duration_ms: Count
    output_sha256: Sha256 | None


class EvalReceipt(Record, frozen=True, kw_only=True):
    """`eval_receipts/<receipt_id>.json`: that the checks ran, on what, and what they said."""

    schema_version: Literal[1]
    receipt_id: Id
    session_id: Id
    goal_id: Id
    goal_contract_sha256: Sha256
    subject: GitSubject
    attempt_id: Id
    role: Name
    checks: Annotated[tuple[CheckResult, ...], msgspec.Meta(max_length=500)]
    verdict: Literal["pass", "fail"]
    report_sha256: Sha256 | None
    created_at_ms: Time
