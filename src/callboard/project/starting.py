"""A new project: what it would begin with, and making it on a yes.

A work file is proposed where there is none. A file that is there is never changed, the user's own
`.gitignore` least of all: what keeps the database out of Git is a file in the project's own folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from callboard.errors import CallboardError
from callboard.project import names, opening, surroundings
from callboard.project.access import not_again, was_answered
from callboard.project.opening import Surroundings
from callboard.project.operations import sources, work
from callboard.project.records import Status
from callboard.project.source import fields, writing
from callboard.project.source.answers import Begun, Initialized, ProposedFile
from callboard.project.source.nodes import MAX_FILE_BYTES
from callboard.project.source.patching import difference
from callboard.project.source.place import Place
from callboard.project.source.reading import FIRST, WorkRead, read_work
from callboard.project.store import Order, Store
from callboard.project.unit import Unit

IGNORE = ".callboard/.gitignore"
_IGNORED = b"""# The project's database belongs to one machine.
/project.db
/project.db-*
"""

_OF_STATUS = Status.__struct_fields__


@dataclass(frozen=True, slots=True)
class Start:
    """What somebody wants to begin with; an `expected_revision` of 0: with no project there."""

    goal: str | None = None
    key: str | None = None
    accept: bool = False
    expected_revision: int | None = None
    request_id: str | None = None

    def order(self, expected_revision: int | None) -> Order:
        """To index what is begun with, where the project is at a revision."""
        goal = None if self.goal is None else names.plain(self.goal)
        intent = {"goal": goal, "key": self.key}
        return Order("init", intent, expected_revision, self.request_id)


def init(path: str | Path, start: Start, around: Surroundings) -> Initialized:
    """The proposal for the folder `path`, carried out where it is accepted."""
    root = opening.root_of(path)
    place = Place(root)
    contents = {FIRST: starter(start.goal), IGNORE: _IGNORED}
    present = _present(root, around, read_only=not start.accept)
    if start.accept and present is not None:
        before = _answered(root, start, around)
        if before is not None:
            return before
    found = {name: _there(place, name) for name in contents}
    # Before anything is made of it.
    read = None if found[FIRST] is None else read_work(place).checked()
    files = tuple(
        ProposedFile(
            path=name,
            action="create" if found[name] is None else "keep",
            diff=difference(name, b"", data) if found[name] is None else "",
        )
        for name, data in contents.items()
    )
    remarks = tuple(_remarks(root, start, found, present))
    if not start.accept:
        return _answer(files, present, remarks, accepted=False)
    _check_revision(start, present)
    store = opening.create_store(root, start.key, around)
    try:
        for name, data in contents.items():
            if found[name] is None:
                place.create(name, data)
        work_read = read or read_work(place).checked()
        return _indexed(store, place, work_read, start, files, remarks)
    finally:
        store.close()


def _answered(root: Path, start: Start, around: Surroundings) -> Initialized | None:
    """What the same request was answered before."""
    order = start.order(start.expected_revision)
    if order.request_id is None:
        return None
    store = opening.open_store(root, around, read_only=False)
    try:
        if was_answered(store, order):
            return _plain(store.write(order, Begun, not_again))
    finally:
        store.close()
    return None


def _check_revision(start: Start, present: Status | None) -> None:
    """Refuse before a file is made; the transaction looks once more."""
    expected = start.expected_revision
    actual = 0 if present is None else present.project_revision
    if expected is not None and expected != actual:
        raise CallboardError(
            "revision_conflict",
            (
                f"there is no project yet, and not one at revision {expected}; nothing was changed"
                if present is None
                else f"the project is at revision {actual}, not at {expected}; nothing was changed"
            ),
            "look at what is there, then ask again with the present revision",
            {"expected": expected, "actual": actual},
        )


def _remarks(
    root: Path, start: Start, found: Mapping[str, bytes | None], present: Status | None
) -> Iterator[str]:
    """What whoever begins here should know, and might not have meant."""
    above = None if present is not None else surroundings.project_at_or_above(root.parent)
    if above is not None:
        yield (
            f"there is a project in {names.shown(str(above))} already, which is meant in all "
            "folders below it; this one is another project"
        )
    if start.goal is not None and found[FIRST] is not None:
        yield f"the goal is not written anywhere, as {FIRST} is there and stays as it is"
    if found[IGNORE] is not None:
        kept = surroundings.not_ignored(root)
        if kept:
            yield (
                f"{IGNORE} is there, and no line of it keeps {', '.join(kept)} out of Git; add the "
                "line /project.db*"
            )


def starter(goal: str | None) -> bytes:
    """A work file to begin with; it is read without a fault."""
    title = "What this project is for"
    if goal is not None:
        wrong = fields.fault_of("line", goal, "goal")
        if wrong:
            raise CallboardError("value_invalid", wrong, "give the goal in one line")
        title = goal
    return (
        "# What is to be done. Callboard reads this file; it changes it only where you accept it.\n"
        "goals:\n"
        "  - id: G-1\n"
        f"    title: {writing.scalar(title)}\n"
        "\n"
        "work_items:\n"
        "  - id: W-1\n"
        "    title: Write down the first pieces of work\n"
        "    status: open\n"
        "    goal: G-1\n"
        "    acceptance:\n"
        "      - Each piece of work says how one sees that it is done\n"
        "    next_action: Replace this item with your own\n"
    ).encode()


def _there(place: Place, path: str) -> bytes | None:
    try:
        return place.read(path, MAX_FILE_BYTES).data
    except CallboardError as error:
        if error.code == "source_missing":
            return None
        raise


def _present(root: Path, around: Surroundings, *, read_only: bool) -> Status | None:
    """The project that is there already; looking at it `read_only` changes nothing."""
    try:
        store = opening.open_store(root, around, read_only=read_only)
    except CallboardError as error:
        if error.code == "project_missing":
            return None
        raise
    try:
        return _status(store)
    finally:
        store.close()


def _status(store: Store) -> Status:
    return store.read(lambda scope: work.status(scope, branch=None, limit=work.READY_SHOWN))


def _indexed(
    store: Store,
    place: Place,
    read: WorkRead,
    start: Start,
    files: tuple[ProposedFile, ...],
    remarks: tuple[str, ...],
) -> Initialized:
    """Index the files, unless the project knows them as they are."""
    if store.read(lambda scope: sources.scan(scope, read)).indexed:
        return _answer(files, _status(store), remarks, accepted=True)

    def act(unit: Unit) -> Begun:
        sources.index(unit, place, read)
        found = work.status(unit, branch=None, limit=work.READY_SHOWN)
        of_status = {name: getattr(found, name) for name in _OF_STATUS}
        return Begun(files=files, remarks=remarks, **of_status)

    # A project that was made just now is at its first revision.
    expected = start.expected_revision
    return _plain(store.write(start.order(1 if expected == 0 else expected), Begun, act))


def _plain(begun: Begun) -> Initialized:
    return Initialized(**{name: getattr(begun, name) for name in Begun.__struct_fields__})


def _answer(
    files: tuple[ProposedFile, ...],
    status: Status | None,
    remarks: tuple[str, ...],
    *,
    accepted: bool,
) -> Initialized:
    return Initialized(
        accepted=accepted,
        files=files,
        project_revision=None if status is None else status.project_revision,
        project=None if status is None else status.project,
        branch=None if status is None else status.branch,
        counts={} if status is None else status.counts,
        ready=() if status is None else status.ready,
        more=status is not None and status.more,
        claims=() if status is None else status.claims,
        lapsed=0 if status is None else status.lapsed,
        completed=0 if status is None else status.completed,
        remarks=remarks,
    )
