"""What `project.source` and `project init` answer with, besides the records of the project.

Frozen values. Differences and messages are ready for a terminal; paths are relative to the project.
"""

from __future__ import annotations

from typing import Literal

from callboard.project.answers import Answer
from callboard.project.records import (
    Claim,
    Event,
    ProjectInfo,
    Record,
    SourceFile,
    WorkItem,
)
from callboard.project.source.faults import Fault
from callboard.project.source.patching import AddItem, Change, Proposal, SetFields

__all__ = [
    "AddItem",
    "Change",
    "ExternalEdge",
    "Fault",
    "FileState",
    "Initialized",
    "Proposal",
    "ProposedFile",
    "SetFields",
    "SourcePatched",
    "SourceScanned",
]


class FileState(Record, frozen=True, kw_only=True):
    """A work file now, against what was indexed. `sha256` None: it is no longer named or there."""

    path: str
    state: Literal["new", "same", "changed", "gone"]
    sha256: str | None
    indexed_sha256: str | None
    size_bytes: int | None


class ExternalEdge(Record, frozen=True, kw_only=True):
    """A dependency that leads to another repository. Nobody here has verified it; it is kept."""

    work: str
    depends_on: str
    file: str
    pointer: str
    line: int
    column: int
    state: Literal["unverified"] = "unverified"


class SourceScanned(Answer, frozen=True, kw_only=True):
    """The work files as they are now; nothing was written.

    `faults` are the first thousand of `fault_count`; with any, `items` and `goals` count only what
    could be read. `indexed`: the project knows exactly these files.
    """

    files: tuple[FileState, ...]
    items: int
    goals: int
    faults: tuple[Fault, ...]
    fault_count: int
    external: tuple[ExternalEdge, ...]
    indexed: bool


class SourcePatched(Answer, frozen=True, kw_only=True):
    """A change of a work file: proposed, or also written and indexed where `accepted`."""

    accepted: bool
    proposal: Proposal
    files: tuple[SourceFile, ...] = ()
    events: tuple[Event, ...] = ()


class ProposedFile(Record, frozen=True, kw_only=True):
    """A file of a new project. `create`: it is not there yet; `keep`: what is there stays."""

    path: str
    action: Literal["create", "keep"]
    diff: str


class Begun(Answer, frozen=True, kw_only=True):
    """That a project was begun with; the rest is as in `Initialized`."""

    accepted: bool = True
    files: tuple[ProposedFile, ...]
    project: ProjectInfo
    branch: str
    counts: dict[str, dict[str, int]]
    ready: tuple[WorkItem, ...]
    more: bool
    claims: tuple[Claim, ...]
    lapsed: int = 0
    completed: int = 0
    remarks: tuple[str, ...] = ()


class Initialized(Record, frozen=True, kw_only=True):
    """A new project: proposed, or also made where `accepted`.

    The fields from `project_revision` to `completed` are those of `status`; they are empty while
    there is no project. `remarks`: what to look at, in words; none of it kept anything from being
    done.
    """

    accepted: bool
    files: tuple[ProposedFile, ...]
    project_revision: int | None
    project: ProjectInfo | None
    branch: str | None
    counts: dict[str, dict[str, int]]
    ready: tuple[WorkItem, ...]
    more: bool
    claims: tuple[Claim, ...]
    lapsed: int = 0
    completed: int = 0
    remarks: tuple[str, ...] = ()
