"""Reviewed changes of work files: shown as a difference first, written only on a yes.

A change is made from bytes with a fingerprint. It is written only while the file still has that
fingerprint, and only where all work files together are without a fault afterwards.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from callboard.canonical import sha256_hex
from callboard.errors import CallboardError
from callboard.project import names
from callboard.project.names import shown
from callboard.project.records import Record
from callboard.project.source import editing, fields
from callboard.project.source.nodes import MAX_FILE_BYTES, Mapping
from callboard.project.source.place import Exchanged, FileRead, Place
from callboard.project.source.reading import FIRST, ParsedFile, WorkRead, read_work

MAX_CHANGES = 100
_BOM = b"\xef\xbb\xbf"


class SetFields(Record, frozen=True, kw_only=True):
    """Set fields of an item; None takes one away. The id cannot be changed."""

    work: str
    values: dict[str, Any]


class AddItem(Record, frozen=True, kw_only=True):
    """Add an item at the end of a file, of work.yaml where none is named."""

    values: dict[str, Any]
    file: str | None = None


Change = SetFields | AddItem


class Proposal(Record, frozen=True, kw_only=True):
    """A change as it would be written. `sha256` is the fingerprint it was made from.

    `diff` is empty where the file says all of it already.
    """

    file: str
    sha256: str
    changed_sha256: str
    diff: str


class Made(Record, frozen=True, kw_only=True):
    """A proposal with the bytes it leads to, and all files as they were read for it."""

    proposal: Proposal
    data: bytes
    before: WorkRead
    after: WorkRead


def propose(place: Place, changes: Sequence[Change], *, sha256: str | None = None) -> Made:
    """The outcome of `changes`, all of them in one file; nothing is written.

    Raises `source_conflict` where the file has not the fingerprint `sha256`, `source_invalid` where
    the files are faulty before or would be afterwards, `not_found`, `field_unknown`,
    `value_invalid`, `source_change_invalid`, `source_edit_refused`, and the codes of `read_work`.
    """
    changes = checked(changes)
    before = read_work(place)
    parsed = _reviewed(before, changes, sha256)
    changed = _applied(parsed, changes)
    path, data = parsed.read.path, changed.read.data
    known = {file.read.path: file for file in before.files} | {path: changed}
    after = read_work(place, known).checked(f"{path} with the change")
    proposal = Proposal(
        file=path,
        sha256=parsed.read.sha256,
        changed_sha256=changed.read.sha256,
        diff=difference(path, parsed.read.data, data),
    )
    return Made(proposal=proposal, data=data, before=before, after=after)


def _reviewed(read: WorkRead, changes: Sequence[Change], sha256: str | None) -> ParsedFile:
    """The file of the changes, as the caller saw it, and without a fault."""
    try:
        parsed = _file(read, changes)
    except CallboardError:
        # With faults, what is missing may be there.
        read.checked()
        raise
    if sha256 is not None:
        # Before anything is said of the contents: they would not be those that the caller saw.
        _expect(parsed, names.sha256(sha256, "fingerprint"))
    read.checked()
    return parsed


def accept(place: Place, made: Made) -> Exchanged:
    """Write what was proposed, while the file is as it was read; it can be put back until closed.

    Raises `source_conflict`, `source_busy`, `source_unsafe` or `source_unwritable`; the file is
    then as it was found.
    """
    proposal = made.proposal
    return place.exchange(proposal.file, proposal.sha256, lambda _: made.data, MAX_FILE_BYTES)


def checked(changes: Sequence[Change]) -> list[Change]:
    """The changes with their values checked, each by itself; raises as `propose`."""
    if not isinstance(changes, (list, tuple)):
        raise _refused(f"{shown(changes)} is no list of changes", "give a list of them")
    if not 1 <= len(changes) <= MAX_CHANGES:
        raise _refused(f"{len(changes)} changes at once", f"give 1 to {MAX_CHANGES}")
    return [_checked_one(change) for change in changes]


def _checked_one(change: Change) -> Change:
    if not isinstance(change, (SetFields, AddItem)):
        raise _refused(f"{shown(change)} is no change", "give SetFields or AddItem")
    if not isinstance(change.values, dict):
        raise _refused(f"{shown(change.values)} names no fields", "give fields with their values")
    values = {}
    for field, value in change.values.items():
        new = fields.check_change(field, value)
        values[names.plain(field)] = new
    if not values:
        raise _refused("a change names no field", "name a field and its value")
    if isinstance(change, AddItem):
        for field in fields.REQUIRED:
            if field not in values:
                raise _refused(f"a new item has no {field}", "give it an id and a title")
        values = {field: value for field, value in values.items() if value not in (None, [])}
        return AddItem(values=values, file=None if change.file is None else _word(change.file))
    if "id" in values:
        raise _refused(
            f"the id of {shown(change.work)} cannot be changed: sessions and events speak of it",
            "add another item, and cancel this one",
        )
    return SetFields(work=_word(change.work), values=values)


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise _refused(f"{shown(value)} names neither an item nor a file", "give its name")
    return names.plain(value)


def _refused(what: str, hint: str) -> CallboardError:
    return CallboardError("source_change_invalid", what, hint)


def _expect(parsed: ParsedFile, sha256: str) -> None:
    if parsed.read.sha256 != sha256:
        raise CallboardError(
            "source_conflict",
            f"{shown(parsed.read.path)} changed since it was read: its sha256 is "
            f"{parsed.read.sha256[:12]}…, not {sha256[:12]}…; it was left as it is",
            "look at the file again, then make the change anew",
            {"file": parsed.read.path, "expected": sha256, "actual": parsed.read.sha256},
        )


def _file(read: WorkRead, changes: Sequence[Change]) -> ParsedFile:
    """The one file that all changes are about."""
    owners = {item.key: item.source_file for item in read.items}
    paths = set()
    for change in changes:
        if isinstance(change, AddItem):
            paths.add(change.file or FIRST)
        elif change.work in owners:
            paths.add(owners[change.work])
        else:
            raise CallboardError(
                "not_found",
                f"no work file has an item {shown(change.work)}",
                "`callboard project work list` shows those there are",
                {"kind": "work", "name": shown(change.work)},
            )
    if len(paths) > 1:
        raise _refused(
            f"the changes are about several files: {', '.join(sorted(map(shown, paths)))}",
            "make one change a file",
        )
    path = paths.pop()
    found = next((parsed for parsed in read.files if parsed.read.path == path), None)
    if found is None:
        raise _refused(f"{shown(path)} is none of the work files", f"list it in {FIRST}: sources")
    return found


def _applied(parsed: ParsedFile, changes: Sequence[Change]) -> ParsedFile:
    """A file after all changes, one after the other."""
    text, tree = parsed.text or "", parsed.tree
    for change in changes:
        if isinstance(change, AddItem):
            text, tree = editing.add_item(text, tree, change.values)
        else:
            item = _node(tree, change.work)
            text, tree = editing.set_fields(text, tree, item, change.values)
    mark = _BOM if parsed.read.data.startswith(_BOM) else b""
    data = mark + text.encode("utf-8")
    if len(data) > MAX_FILE_BYTES:
        raise _refused(
            f"{shown(parsed.read.path)} would have {len(data)} bytes, more than {MAX_FILE_BYTES}",
            f"put the item into another file, listed in {FIRST}: sources",
        )
    return ParsedFile(FileRead(parsed.read.path, data, sha256_hex(data)), text, tree)


def _node(tree: Any, work: str) -> Mapping:
    for entry in tree.value("work_items").entries:
        if isinstance(entry, Mapping) and entry.value("id").text == work:
            return entry
    raise AssertionError(f"{work} was read from this file")


def difference(path: str, old: bytes, new: bytes) -> str:
    """A unified diff, as a terminal may show it: what would act on one is spelled out."""
    rows = difflib.unified_diff(_rows(old), _rows(new), f"a/{path}", f"b/{path}", n=3, lineterm="")
    return "".join(f"{row}\n" for row in rows)


def _rows(data: bytes) -> list[str]:
    rows = data.decode("utf-8", "replace").split("\n")
    last = rows.pop()
    found = [_visible(row) for row in rows]
    # As diff says it: the last line has no line break.
    return [*found, f"{_visible(last)}\n\\ No newline at end of file"] if last else found


def _visible(row: str) -> str:
    clean = "".join(
        char if char.isprintable() or char == "\t" else f"\\u{ord(char):04x}"
        for char in row.removesuffix("\r")
    )
    return clean + "\\r" * row.endswith("\r")
