"""The work files and the projection: looking at both, indexing, writing a reviewed change.

Files are read and judged before a transaction begins, and looked at once more inside it. In a
change the file is written last, so what fails before leaves file and project as they were.
"""

from __future__ import annotations

from functools import partial

from callboard.errors import CallboardError
from callboard.project import names, queries
from callboard.project.answers import SourceIndexed
from callboard.project.operations import work
from callboard.project.records import SourceFile, WorkItem
from callboard.project.source import patching
from callboard.project.source.answers import (
    ExternalEdge,
    FileState,
    SourcePatched,
    SourceScanned,
)
from callboard.project.source.nodes import MAX_FILE_BYTES
from callboard.project.source.patching import Made
from callboard.project.source.place import Place
from callboard.project.source.reading import WorkRead
from callboard.project.unit import Scope, Unit

_MAX_EXTERNAL = 1000


def scan(scope: Scope, read: WorkRead) -> SourceScanned:
    """What was read, against what was indexed."""
    known = {file.path: file for file in queries.sources(scope)}
    now = read.source_files()
    states = [_state(file, known.get(file.path)) for file in now]
    states += [
        FileState(path=path, state="gone", sha256=None, indexed_sha256=file.sha256, size_bytes=None)
        for path, file in known.items()
        if path not in {file.path for file in now}
    ]
    return SourceScanned(
        project_revision=scope.revision,
        files=tuple(states),
        items=len(read.items),
        goals=len(read.goals),
        faults=read.faults,
        fault_count=read.fault_count,
        external=tuple(
            ExternalEdge(
                work=edge.work,
                depends_on=edge.edge,
                file=edge.spot.file,
                pointer=edge.spot.pointer,
                line=edge.spot.line,
                column=edge.spot.column,
            )
            for edge in read.externals[:_MAX_EXTERNAL]
        ),
        indexed=all(state.state == "same" for state in states),
    )


def _state(now: SourceFile, known: SourceFile | None) -> FileState:
    return FileState(
        path=now.path,
        state="new" if known is None else "same" if known.sha256 == now.sha256 else "changed",
        sha256=now.sha256,
        indexed_sha256=None if known is None else known.sha256,
        size_bytes=now.size_bytes,
    )


def index(unit: Unit, place: Place, read: WorkRead) -> SourceIndexed:
    """Put what was read in the place of what was indexed; `source_conflict` if it changed since."""
    files = read.source_files()
    for file in files:
        check_unchanged(place, file.path, file.sha256, "read")
    return work.replace(unit, read.items, read.goals, files)


def patch(unit: Unit, place: Place, made: Made) -> SourcePatched:
    """Write a proposal to its file and index the outcome."""
    proposal = made.proposal
    for file in made.before.source_files():
        check_unchanged(place, file.path, file.sha256, "read")
    files = made.after.source_files()
    work.replace(unit, made.after.items, made.after.goals, files)
    unit.event(
        "source.patched",
        {
            "path": proposal.file,
            "before_sha256": proposal.sha256,
            "sha256": proposal.changed_sha256,
        },
    )
    if proposal.diff:
        # Where a row cannot be written the file stays as it is.
        unit.last.append(partial(patching.accept, place, made))
    return SourcePatched(
        project_revision=unit.revision,
        accepted=True,
        proposal=proposal,
        files=files,
        events=tuple(unit.events),
    )


def indexed_sha256(scope: Scope, path: str) -> str:
    """The fingerprint with which a file was indexed; `source_conflict` where it never was."""
    for file in queries.sources(scope):
        if file.path == path:
            return file.sha256
    raise CallboardError(
        "source_conflict",
        f"{names.shown(path)} was never indexed, so it is not known which bytes were reviewed",
        "name the sha256 that the proposal shows, or run `callboard project source index`",
        {"file": path, "expected": None, "actual": None},
    )


def check_item_unchanged(place: Place, item: WorkItem) -> None:
    """Refuse with `source_conflict` where the file of an item is not as it was indexed."""
    check_unchanged(place, item.source_file, item.source_sha256, "indexed")


def check_reviewed(scope: Scope, made: Made) -> None:
    """Refuse with `source_conflict` a proposal that was made from other bytes than were indexed."""
    proposal = made.proposal
    indexed = indexed_sha256(scope, proposal.file)
    _same(proposal.file, indexed, proposal.sha256, "indexed")


def check_unchanged(place: Place, path: str, sha256: str, when: str) -> None:
    """Refuse with `source_conflict` a file that has another fingerprint by now."""
    _same(path, sha256, place.read(path, MAX_FILE_BYTES).sha256, when)


def _same(path: str, sha256: str, now: str, when: str) -> None:
    if now != sha256:
        raise CallboardError(
            "source_conflict",
            f"{names.shown(path)} changed since it was {when}; nothing was written",
            "look at it, run `callboard project source index`, then ask again",
            {"file": path, "expected": sha256, "actual": now},
        )
