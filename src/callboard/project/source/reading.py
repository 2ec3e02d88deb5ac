"""Reads the work files of a project as a whole: the first one, and those it names.

What is found is values with their fingerprints, or every fault; nothing is stored and nothing is
written. The first file is `work.yaml` at the top of the project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callboard.errors import CallboardError
from callboard.project.records import Goal, SourceFile, WorkItem
from callboard.project.source import fields, graph
from callboard.project.source.faults import Fault, Faults, refusal
from callboard.project.source.nodes import MAX_FILE_BYTES, decode, parse
from callboard.project.source.place import FileRead, Place
from callboard.project.source.shape import Draft, Shape, Shaper, Spot

FIRST = "work.yaml"
MAX_TOTAL_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file with its tree; `text` None: it is no text, `tree` None: no YAML."""

    read: FileRead
    text: str | None
    tree: Any


@dataclass(frozen=True, slots=True)
class External:
    """A dependency that leads to another repository: nobody here has looked there."""

    work: str
    edge: str
    spot: Spot


@dataclass(slots=True)
class WorkRead:
    """All files of a project as they are now. With faults, goals and items are not complete."""

    files: list[ParsedFile] = field(default_factory=list)
    goals: tuple[Goal, ...] = ()
    items: tuple[WorkItem, ...] = ()
    externals: tuple[External, ...] = ()
    faults: tuple[Fault, ...] = ()
    fault_count: int = 0

    def source_files(self) -> tuple[SourceFile, ...]:
        """The files with their fingerprints, in their order."""
        return tuple(
            SourceFile(path=read.path, sha256=read.sha256, size_bytes=len(read.data))
            for read in (parsed.read for parsed in self.files)
        )

    def checked(self, what: str = "the work file") -> WorkRead:
        """Itself, or `source_invalid` with every fault."""
        if self.fault_count:
            raise refusal(self.faults, self.fault_count, what=what)
        return self


def read_work(place: Place, known: Mapping[str, ParsedFile] | None = None) -> WorkRead:
    """The work of the project at `place`; `known` files, without a fault, are not read again.

    Raises `source_missing` where there is no work.yaml, `source_unsafe`, `file_unreadable` or
    `resource_limit` for the first file; for further ones these are faults where they are named.
    """
    return _Reader(place, known or {}).all()


class _Reader:
    def __init__(self, place: Place, known: Mapping[str, ParsedFile]) -> None:
        self._place = place
        self._known = known
        self._shapes: list[Shape] = []
        self._faults = Faults()
        self._found = WorkRead()
        self._total = 0
        self._complete = True

    def all(self) -> WorkRead:
        found = self._found
        self._take(self._read(FIRST), first=True)
        for path, spot in self._shapes[0].sources:
            self._named(path, spot)
        drafts = [draft for shape in self._shapes for draft in shape.items]
        goals = [goal for shape in self._shapes for goal in shape.goals]
        known_goals = graph.check_names(goals, "goal", self._faults)
        known = graph.check_names(drafts, "work item", self._faults)
        complete = self._complete and all(draft.key for draft in (*drafts, *goals))
        graph.check_references(known, known_goals, self._faults, complete=complete)
        found.faults = self._faults.of(file.read.path for file in found.files)
        found.fault_count = self._faults.count
        found.goals = tuple(self._goal(draft) for draft in known_goals.values())
        found.items = tuple(self._item(draft) for draft in known.values())
        found.externals = tuple(
            External(key, edge, draft.spots["depends_on", number])
            for key, draft in known.items()
            for number, edge in enumerate(draft.values.get("depends_on", ()))
            if fields.is_external(edge)
        )
        return found

    def _read(self, path: str) -> FileRead:
        known = self._known.get(path)
        return self._place.read(path, MAX_FILE_BYTES) if known is None else known.read

    def _named(self, path: str, spot: Spot) -> None:
        def tell(message: str) -> None:
            self._faults.add(spot.file, spot.pointer, spot.line, spot.column, message)

        if path == FIRST:
            tell(f"{FIRST} names itself")
            return
        try:
            read = self._read(path)
        except CallboardError as error:
            self._complete = False
            tell(error.message)
            return
        if self._total + len(read.data) > MAX_TOTAL_BYTES:
            tell(f"with {path} the work files have more than {MAX_TOTAL_BYTES} bytes")
            self._complete = False
            return
        self._take(read, first=False)

    def _take(self, read: FileRead, *, first: bool) -> None:
        self._total += len(read.data)
        parsed = self._known.get(read.path)
        if parsed is None:
            text = decode(read.data, read.path, self._faults)
            tree = None if text is None else parse(text, read.path, self._faults)
            parsed = ParsedFile(read, text, tree)
        self._complete = self._complete and parsed.tree is not None
        self._found.files.append(parsed)
        self._shapes.append(Shaper(read.path, self._faults).shape(parsed.tree, first=first))

    def _goal(self, draft: Draft) -> Goal:
        values = draft.values
        return Goal(
            key=values["id"],
            title=values.get("title", ""),
            status=values.get("status", fields.OPEN),
            source_file=draft.spot.file,
            source_sha256=self._sha256(draft),
        )

    def _item(self, draft: Draft) -> WorkItem:
        rest = {key: value for key, value in draft.values.items() if key not in ("id", "title")}
        return WorkItem(
            key=draft.values["id"],
            title=draft.values.get("title", ""),
            source_file=draft.spot.file,
            source_sha256=self._sha256(draft),
            **rest,
        )

    def _sha256(self, draft: Draft) -> str:
        return next(
            file.read.sha256 for file in self._found.files if file.read.path == draft.spot.file
        )
