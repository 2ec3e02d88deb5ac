"""The fields of a work file: what each may hold, for reading and for a change alike.

Pure. One table says it for goals and work items; a message says what was found.
"""

from __future__ import annotations

import re
from typing import Any

from callboard.errors import CallboardError
from callboard.project import names
from callboard.project.names import shown

MAX_LINE = 500
MAX_ENTRIES = 200

OPEN = "open"
IN_PROGRESS = "in_progress"
BLOCKED = "blocked"
DONE = "done"
CANCELLED = "cancelled"

STATUSES = (OPEN, IN_PROGRESS, BLOCKED, DONE, CANCELLED)
GOAL_STATUSES = (OPEN, DONE, CANCELLED)
CLOSED = frozenset({DONE, CANCELLED})

ITEM_FIELDS = {
    "id": "id",
    "title": "line",
    "status": "status",
    "goal": "id",
    "acceptance": "texts",
    "next_action": "text",
    "depends_on": "edges",
    "workstream": "name",
    "owner": "name",
    "paths": "paths",
    "tags": "names",
    "priority": "priority",
}
"""The fields of a work item, in the order in which a new one is written."""

GOAL_FIELDS = {"id": "id", "title": "line", "status": "goal_status"}
REQUIRED = ("id", "title")
LISTS = frozenset({"texts", "edges", "paths", "names"})

_EXTERNAL = re.compile(r"[^\s:]+:\S(?:.*\S)?")
_DRIVE = re.compile(r"[A-Za-z]:")


def is_external(edge: str) -> bool:
    """Whether a dependency names something of another repository: `other-repo:42`."""
    return ":" in edge


def fault_of(kind: str, value: str, field: str) -> str | None:
    """What is wrong with one text in a field of that kind; None: nothing."""
    if kind in ("status", "goal_status"):
        known = STATUSES if kind == "status" else GOAL_STATUSES
        return None if value in known else f"{shown(value)} is none of {', '.join(known)}"
    try:
        if kind in ("text", "texts"):
            names.text(value, field)
        elif kind == "line":
            _line(value, field)
        else:
            names.name(value, field)
    except CallboardError as error:
        return error.message
    if kind == "id" and ":" in value:
        return f"the {field} {shown(value)} has a colon, which marks things of other repositories"
    if kind == "edges" and is_external(value) and not _EXTERNAL.fullmatch(value):
        return f"the dependency {shown(value)} is not like other-repo:42"
    return _path_fault(value) if kind == "paths" else None


def _line(value: str, field: str) -> None:
    names.text(value, field, limit=MAX_LINE)
    if any(char in value for char in "\n\r\t"):
        raise CallboardError("text_invalid", f"the {field} {shown(value)} has more than one line")


def _path_fault(path: str) -> str | None:
    parts = path.removesuffix("/").split("/")
    if path.startswith("/") or "\\" in path or _DRIVE.match(path):
        return f"the path {shown(path)} is not relative, with / between its parts"
    if any(part in ("", ".", "..") for part in parts):
        return f"the path {shown(path)} does not lead down from the top of the repository"
    if parts[0].casefold() == ".git":
        return f"the path {shown(path)} leads into the repository's own files"
    return None


def check_change(field: str, value: Any) -> Any:
    """A new value of an item's field, as it may be written; None takes the field away.

    Raises `CallboardError` `field_unknown` or `value_invalid`.
    """
    kind = ITEM_FIELDS.get(field) if isinstance(field, str) else None
    if kind is None:
        raise CallboardError(
            "field_unknown",
            f"a work item has no field {shown(field)}",
            f"use one of {', '.join(ITEM_FIELDS)}",
            {"field": shown(field)},
        )
    if value is None:
        if field in REQUIRED:
            raise _refused(field, f"the {field} cannot be taken away")
        return None
    if kind == "priority":
        if type(value) is not int or not 1 <= value <= 5:
            raise _refused(field, f"the priority {shown(value)} is no whole number from 1 to 5")
        return value
    if kind in LISTS:
        return _entries(kind, field, value)
    if not isinstance(value, str):
        raise _refused(field, f"the {field} {shown(value)} is not text")
    wrong = fault_of(kind, value, field)
    if wrong:
        raise _refused(field, wrong)
    return names.plain(value)


def _entries(kind: str, field: str, value: Any) -> list[str]:
    if not isinstance(value, (list, tuple)):
        raise _refused(field, f"the {field} {shown(value)} is no list")
    if len(value) > MAX_ENTRIES:
        raise _refused(field, f"{field} has {len(value)} entries, more than {MAX_ENTRIES}")
    seen: set[str] = set()
    for entry in value:
        wrong = (
            fault_of(kind, entry, field)
            if isinstance(entry, str)
            else f"{shown(entry)} in {field} is not text"
        )
        if not wrong and entry in seen:
            wrong = f"{shown(entry)} stands twice in {field}"
        if wrong:
            raise _refused(field, wrong)
        seen.add(entry)
    return [names.plain(entry) for entry in value]


def _refused(field: str, what: str) -> CallboardError:
    return CallboardError(
        "value_invalid", what, f"give another value for {field}", {"field": field}
    )
