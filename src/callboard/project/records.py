"""What the project wing answers with: frozen copies, free of the database.

Nothing here reads or writes. `msgspec.to_builtins` of any of them is its JSON document. Times are
Unix milliseconds; the branch that everybody begins on is called `main`; ids are opaque.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SessionState = Literal["active", "interrupted", "ended", "handed_off"]
ClaimState = Literal["active", "released", "expired", "transferred"]
BranchState = Literal["open", "closed"]
Severity = Literal["error", "warning", "info"]

MAIN = "main"
UNDECLARED = "undeclared"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A value that cannot be changed."""


# --- things -----------------------------------------------------------------------------------


class ProjectInfo(Record, frozen=True, kw_only=True):
    """A project: `revision` rises by one with each change."""

    id: str
    key: str
    revision: int


class WorkItem(Record, frozen=True, kw_only=True):
    """A piece of work as its source file has it; the file stays the authority."""

    key: str
    title: str
    status: str = "open"
    goal: str | None = None
    acceptance: tuple[str, ...] = ()
    next_action: str | None = None
    depends_on: tuple[str, ...] = ()
    workstream: str | None = None
    owner: str | None = None
    paths: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    priority: int | None = None
    source_file: str
    source_sha256: str


ReasonKind = Literal[
    "closed",
    "completed",
    "blocked",
    "claimed",
    "dependency_open",
    "dependency_blocked",
    "dependency_cancelled",
    "dependency_missing",
    "dependency_unverified",
]


class Reason(Record, frozen=True, kw_only=True):
    """Why work is not ready. `path` leads from the work to `item`; `claim`: who holds it."""

    kind: ReasonKind
    item: str
    path: tuple[str, ...]
    message: str
    claim: Claim | None = None


class Readiness(Record, frozen=True, kw_only=True):
    """Whether work can be begun by whoever asked; `reasons` is empty exactly where it can."""

    ready: bool
    reasons: tuple[Reason, ...]


class WorkView(WorkItem, frozen=True, kw_only=True):
    """A piece of work with what the project knows of it, on one branch.

    `claim` is the one that nobody ended, lapsed or not. `external`: dependencies that lead to other
    repositories, which nobody here can look into.
    """

    readiness: Readiness
    claim: Claim | None
    completed: bool
    external: tuple[str, ...]


class Goal(Record, frozen=True, kw_only=True):
    """A goal as its source file has it."""

    key: str
    title: str
    status: str = "open"
    source_file: str
    source_sha256: str


class SourceFile(Record, frozen=True, kw_only=True):
    """A source file as it was when it was indexed; `path` is relative to the project's root."""

    path: str
    sha256: str
    size_bytes: int


class Session(Record, frozen=True, kw_only=True):
    """One agent at one piece of work on one branch. `outcome`: what was said at its end.

    `agent`, `provider` and `model` are as declared at its start; nobody authenticates them.
    """

    id: str
    work: str
    branch: str
    agent: str
    provider: str | None
    model: str | None
    state: SessionState
    predecessor: str | None
    started_at_ms: int
    ended_at_ms: int | None
    outcome: str | None = None


class Claim(Record, frozen=True, kw_only=True):
    """The hold of a session on its work. `state` is as of the answer: past its end it is expired.

    `fence` rises by one with each acquisition of that work. `expires_at_ms` None: no end. `agent`
    is the session's, declared and not authenticated.
    """

    id: str
    work: str
    session: str
    agent: str
    branch: str
    state: ClaimState
    fence: int
    acquired_at_ms: int
    expires_at_ms: int | None
    released_at_ms: int | None


class Artifact(Record, frozen=True, kw_only=True):
    """A version of something that a checkpoint speaks of."""

    ref: str
    sha256: str


class Checkpoint(Record, frozen=True, kw_only=True):
    """Where a session stood. `agent` is who was named as its author, unverified."""

    id: str
    session: str
    digest: str
    next_action: str
    open_loops: tuple[str, ...]
    context_sha256: str | None
    artifacts: tuple[Artifact, ...]
    agent: str
    at_ms: int
    revision: int


class Event(Record, frozen=True, kw_only=True):
    """Something that happened; never changed afterwards. `seq` counts within the project."""

    id: str
    seq: int
    type: str
    work: str | None
    branch: str | None
    session: str | None
    revision: int
    at_ms: int
    body: dict[str, Any]


class Branch(Record, frozen=True, kw_only=True):
    """A work branch, none of Git's. `selected`: it is meant where no branch is named."""

    name: str
    state: BranchState
    selected: bool
    created_at_ms: int
    closed_at_ms: int | None


class Evidence(Record, frozen=True, kw_only=True):
    """What shows that acceptance criteria are met.

    `currency` is relative to the branch that was asked for: from another one it is historical.
    `agent` is its session's, declared and not authenticated; None: of no session.
    """

    id: str
    work: str
    branch: str
    session: str | None
    agent: str | None
    kind: str
    summary: str
    covers: tuple[str, ...]
    ref: str | None
    sha256: str | None
    at_ms: int
    revision: int
    currency: Literal["current", "historical"]


class Receipt(Record, frozen=True, kw_only=True):
    """That a request was carried out: its outcome is answered again to the same request.

    `actor` is who asked, as they said themselves; nobody authenticates it.
    """

    request_id: str
    operation: str
    actor: str
    revision: int
    at_ms: int
    outcome: dict[str, Any]


class Finding(Record, frozen=True, kw_only=True):
    """One thing the doctor saw."""

    code: str
    severity: Severity
    subject: str | None
    message: str
    hint: str
    details: dict[str, Any] = {}
