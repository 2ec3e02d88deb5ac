"""A new project: what it would begin with, and making it on a yes.

A work file is proposed where there is none. A file that is there is never changed, the user's own
`.gitignore` least of all: what keeps the database out of Git is a file in the project's own folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from callboard.errors import CallboardError
from callboard.project import opening
from callboard.project.opening import Surroundings
from callboard.project.operations import sources, work
from callboard.project.records import SourceIndexed, Status
from callboard.project.source import fields, writing
from callboard.project.source.answers import Initialized, ProposedFile
from callboard.project.source.nodes import MAX_FILE_BYTES
from callboard.project.source.patching import difference
from callboard.project.source.place import Place
from callboard.project.source.reading import FIRST, WorkRead, read_work
from callboard.project.store import Order, Store

IGNORE = ".callboard/.gitignore"
_IGNORED = b"""# The project's database belongs to one machine.
/project.db
/project.db-*
"""


@dataclass(frozen=True, slots=True)
class Start:
    """What somebody wants to begin with."""

    goal: str | None = None
    key: str | None = None
    accept: bool = False


def init(path: str | Path, start: Start, around: Surroundings) -> Initialized:
    """The proposal for the folder `path`, carried out where it is accepted."""
    root = opening.root_of(path)
    place = Place(root)
    contents = {FIRST: starter(start.goal), IGNORE: _IGNORED}
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
    if not start.accept:
        return _answer(files, _present(root, around), accepted=False)
    store = opening.create_store(root, start.key, around)
    try:
        for name, data in contents.items():
            if found[name] is None:
                place.create(name, data)
        _index(store, place, read or read_work(place).checked())
        status = _status(store)
    finally:
        store.close()
    return _answer(files, status, accepted=True)


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


def _present(root: Path, around: Surroundings) -> Status | None:
    """The project that is there already; looking at it changes nothing."""
    try:
        store = opening.open_store(root, around, read_only=True)
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


def _index(store: Store, place: Place, read: WorkRead) -> None:
    """Index the files, unless the project knows them as they are."""
    if not store.read(lambda scope: sources.scan(scope, read)).indexed:
        store.write(Order("init"), SourceIndexed, lambda unit: sources.index(unit, place, read))


def _answer(
    files: tuple[ProposedFile, ...], status: Status | None, *, accepted: bool
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
    )
