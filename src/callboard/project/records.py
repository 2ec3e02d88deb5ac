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


# --- answers ----------------------------------------------------------------------------------


class Answer(Record, frozen=True, kw_only=True):
    """Every answer says which revision it is of; a change's is the one it made."""

    project_revision: int


class Status(Answer, frozen=True, kw_only=True):
    """The project at a glance; `counts` by kind and state.

    `ready`: the first of the work that can be begun on `branch`; `more`: there is more of it.
    `claims`: the first twenty that nobody ended, by work; the state of a lapsed one is expired.
    `lapsed`: how many of the expired claims in `counts` nobody took over or marked yet.
    `completed`: how much work is completed on `branch`, whatever its file says.
    """

    project: ProjectInfo
    branch: str
    counts: dict[str, dict[str, int]]
    ready: tuple[WorkItem, ...]
    more: bool
    claims: tuple[Claim, ...]
    lapsed: int = 0
    completed: int = 0


class WorkShown(Answer, frozen=True, kw_only=True):
    """One piece of work, as it stands on `branch`."""

    branch: str
    work: WorkView


class WorkPage(Answer, frozen=True, kw_only=True):
    """Some pieces of work, in the order of their files, as they stand on `branch`.

    `status`: only work was asked for whose file gives it that one.
    """

    branch: str
    work: tuple[WorkView, ...]
    next: str | None
    status: str | None = None


class WorkCompleted(Answer, frozen=True, kw_only=True):
    """Work was completed on the branch of a session; `completion` is the id of that fact."""

    completion: str
    branch: str
    work: WorkView
    event: Event


class SourceIndexed(Answer, frozen=True, kw_only=True):
    """What an indexing put in the place of the old projection."""

    items: int
    goals: int
    files: tuple[SourceFile, ...]
    event: Event


class SessionStarted(Answer, frozen=True, kw_only=True):
    """A new session, also one that follows another; `claim` None: it holds nothing.

    `remarks`: what to look at before one begins, in words, such as why the work is not ready.
    """

    session: Session
    claim: Claim | None
    events: tuple[Event, ...]
    remarks: tuple[str, ...] = ()


class WorkTaken(Answer, frozen=True, kw_only=True):
    """The next work with a session that holds it; all three None where nothing was ready."""

    branch: str
    work: WorkItem | None
    session: Session | None
    claim: Claim | None
    events: tuple[Event, ...]


class SessionShown(Answer, frozen=True, kw_only=True):
    """A session, its last claim, and the last checkpoint of it or of those before it."""

    session: Session
    claim: Claim | None
    checkpoint: Checkpoint | None


class SessionPage(Answer, frozen=True, kw_only=True):
    """Some sessions, the latest first, and their claims that nobody ended, lapsed or not."""

    sessions: tuple[Session, ...]
    claims: tuple[Claim, ...]
    next: str | None


class CheckpointSaved(Answer, frozen=True, kw_only=True):
    """A checkpoint was written."""

    checkpoint: Checkpoint
    event: Event


class SessionClosed(Answer, frozen=True, kw_only=True):
    """A session was interrupted or ended, and with it its own claims."""

    session: Session
    closed_claims: tuple[Claim, ...]
    events: tuple[Event, ...]


class ClaimChanged(Answer, frozen=True, kw_only=True):
    """A claim was acquired, renewed or released."""

    claim: Claim
    events: tuple[Event, ...]


class ClaimShown(Answer, frozen=True, kw_only=True):
    """The claim on a piece of work, also a lapsed one that nobody took over; or None."""

    claim: Claim | None


class ClaimRepaired(Answer, frozen=True, kw_only=True):
    """A lapsed claim was marked as expired."""

    claim: Claim
    event: Event


class ClockRepaired(Answer, frozen=True, kw_only=True):
    """The project's time went back to the clock's; `moved_claims` got another end by that."""

    before_ms: int
    after_ms: int
    moved_claims: int
    event: Event


class BranchChanged(Answer, frozen=True, kw_only=True):
    """A branch was created, selected or closed; `remarks`: what follows from it, in words."""

    branch: Branch
    event: Event
    remarks: tuple[str, ...] = ()


class BranchList(Answer, frozen=True, kw_only=True):
    """All branches, in the order of their making."""

    branches: tuple[Branch, ...]


class EventAppended(Answer, frozen=True, kw_only=True):
    """An observation was written."""

    event: Event


class EventPage(Answer, frozen=True, kw_only=True):
    """Some events, the oldest first; `next` None: there are no more now."""

    events: tuple[Event, ...]
    next: str | None


class EvidenceAdded(Answer, frozen=True, kw_only=True):
    """Evidence was written."""

    evidence: Evidence
    event: Event


class EvidencePage(Answer, frozen=True, kw_only=True):
    """Some evidence, the oldest first."""

    evidence: tuple[Evidence, ...]
    next: str | None


class ReceiptShown(Answer, frozen=True, kw_only=True):
    """What came of a request; `receipt.revision` is the one that it made."""

    receipt: Receipt


class Diagnosis(Record, frozen=True, kw_only=True):
    """What the doctor saw; `project_revision` and `schema_version` None: they cannot be read."""

    project_revision: int | None
    schema_version: str | None
    healthy: bool
    findings: tuple[Finding, ...]
