"""What each operation of a project answers with; what it is made of stands in `records`.

Nothing here reads or writes. `msgspec.to_builtins` of an answer is the document that the command
line and the tools give.
"""

from __future__ import annotations

from callboard.project.records import (
    Branch,
    Checkpoint,
    Claim,
    Event,
    Evidence,
    Finding,
    ProjectInfo,
    Receipt,
    Record,
    Session,
    SourceFile,
    WorkItem,
    WorkView,
)


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
