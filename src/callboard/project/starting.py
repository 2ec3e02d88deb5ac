"""A new project: what it would begin with, and making it on a yes.

A work file is proposed where there is none. A file that is there is never changed, the user's own
`.gitignore` least of all: what keeps the database out of Git is a file in the project's own folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from callboard.errors import CallboardError
from callboard.project import names, opening, surroundings
from callboard.project.access import not_again, was_answered
from callboard.project.answers import Status
from callboard.project.opening import Surroundings
from callboard.project.operations import sources, work
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

_DATABASE = ".callboard/project.db"
_BEGUN = 1
"""The revision of a project of which nothing was indexed yet."""

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
    """The proposal for the folder `path`, carried out where it is accepted.

    What was begun and not ended, as whoever made it was stopped, is gone on with. A refusal tells
    what is there by then.
    """
    root = opening.root_of(path)
    place = Place(root)
    contents = {FIRST: starter(start.goal), IGNORE: _IGNORED}
    present = _present(root, around, read_only=not start.accept)
    if start.accept and present is not None:
        before = _answered(root, start, around)
        if before is not None:
            return before
    if present is None:
        _check_key(root, start.key)
    found = {name: _there(place, name) for name in contents}
    # Before anything is made of it.
    read = None if found[FIRST] is None else _read(place, is_new=present is None)
    remarks = tuple(_remarks(root, start, found, present))
    if not start.accept:
        return _answer(_files(contents, _absent(found)), present, remarks, accepted=False)
    _check_revision(start, present)
    store = opening.create_store(root, start.key, around)
    made = [] if present is not None else [_DATABASE]
    try:
        # Others may be at it too: what they made first is theirs.
        made += [name for name in _absent(found) if place.create(name, contents[name])]
        files = _files(contents, made)
        work_read = read or _read(place, is_new=False)
        return _indexed(store, place, work_read, start, files, remarks)
    except CallboardError as error:
        raise _stopped(error, made) from error
    finally:
        store.close()


def _absent(found: Mapping[str, bytes | None]) -> list[str]:
    return [name for name, data in found.items() if data is None]


def _files(contents: Mapping[str, bytes], made: Collection[str]) -> tuple[ProposedFile, ...]:
    return tuple(
        ProposedFile(
            path=name,
            action="create" if name in made else "keep",
            diff=difference(name, b"", data) if name in made else "",
        )
        for name, data in contents.items()
    )


def _check_key(root: Path, key: str | None) -> None:
    """Refuse a folder whose name cannot be the key, before anything is proposed."""
    if key is not None:
        names.name(key, "project key")
        return
    try:
        names.name(root.name or "project", "project key")
    except CallboardError as error:
        error.hint = "the folder's name cannot be the key, so give one: --key, or the field key"
        raise


def _read(place: Place, *, is_new: bool) -> WorkRead:
    """The work file that is there. Where there is no project, nothing else can tell its faults."""
    try:
        return read_work(place).checked()
    except CallboardError as error:
        if is_new and error.code == "source_invalid":
            error.hint = (
                "correct the file and ask again; until there is a project, this tells its faults"
            )
        raise


def _stopped(error: CallboardError, made: list[str]) -> CallboardError:
    """The refusal, with what was made before it came."""
    if not made:
        return error
    reason = error.message.replace("; nothing was written", "").replace("; nothing was changed", "")
    return CallboardError(
        error.code,
        f"{' and '.join(made)} {'is' if len(made) == 1 else 'are'} there by now, and the work is "
        f"not indexed: {reason}",
        f"{error.hint}; the same request goes on from what is there",
        {**error.details, "made": made},
    )


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
    if expected is None or expected == actual:
        return
    # Whoever made it did not get to the end: no work was ever indexed, so it is still to be begun.
    if expected == 0 and actual == _BEGUN:
        return
    raise _conflict(expected, actual)


def _conflict(expected: int, actual: int) -> CallboardError:
    return CallboardError(
        "revision_conflict",
        (
            f"there is no project yet, and not one at revision {expected}; nothing was changed"
            if actual == 0
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
        where = names.shown(str(above), names.PATH_SHOWN)
        yield (
            f"there is a project in {where} already, which is meant in all folders below it; "
            "this one is another project"
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
    """Index the files. Where the project knows them as they are, only a named request does so
    again, as its answer is kept with a change."""
    if start.request_id is None and store.read(lambda scope: sources.scan(scope, read)).indexed:
        status = _status(store)
        _check_revision(start, status)
        return _answer(files, status, remarks, accepted=True)

    def act(unit: Unit) -> Begun:
        sources.index(unit, place, read)
        found = work.status(unit, branch=None, limit=work.READY_SHOWN)
        of_status = {name: getattr(found, name) for name in _OF_STATUS}
        return Begun(files=files, remarks=remarks, **of_status)

    expected = start.expected_revision
    order = start.order(_BEGUN if expected == 0 else expected)
    try:
        return _plain(store.write(order, Begun, act))
    except CallboardError as error:
        if expected == 0 and error.code == "revision_conflict":
            raise _conflict(0, _status(store).project_revision) from error
        raise


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
