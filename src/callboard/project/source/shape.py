"""From a tree to goals and work items: keys that exist, values of the right kind.

Closed: what is not known is a fault. Each value is judged alone; how items refer to each other is
judged in `graph.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from callboard.project.names import shown
from callboard.project.source import fields
from callboard.project.source.faults import Faults, pointer
from callboard.project.source.nodes import Mapping, Node, Scalar, Sequence, kind_of

MAX_ITEMS = 20_000
MAX_SOURCES = 64

_TOP = ("sources", "goals", "work_items")


@dataclass(slots=True)
class Spot:
    """Where something stands."""

    file: str
    pointer: str
    line: int
    column: int


@dataclass(slots=True)
class Draft:
    """A goal or work item as far as it could be read, with the places of what it refers to."""

    key: str | None
    spot: Spot
    node: Mapping
    values: dict[str, Any] = field(default_factory=dict)
    spots: dict[tuple[str, int], Spot] = field(default_factory=dict)


@dataclass(slots=True)
class Shape:
    """What one file says."""

    sources: list[tuple[str, Spot]] = field(default_factory=list)
    goals: list[Draft] = field(default_factory=list)
    items: list[Draft] = field(default_factory=list)


class Shaper:
    """Reads the tree of one file; every fault goes to `faults`."""

    def __init__(self, file: str, faults: Faults) -> None:
        self._file = file
        self._faults = faults

    def shape(self, root: Any, *, first: bool) -> Shape:
        """The goals and items of a tree; only the `first` file may name `sources`."""
        found = Shape()
        if root is None:
            return found
        if not isinstance(root, Mapping):
            self._tell(root, "", f"the file holds {kind_of(root)}, not a mapping")
            return found
        for key, (place, value) in root.entries.items():
            at = pointer(key)
            if key not in _TOP:
                self._tell(place, at, f"unknown key {shown(key)}; known are {', '.join(_TOP)}")
            elif key == "sources" and not first:
                self._tell(place, at, "only work.yaml may name further files")
            elif key == "sources":
                found.sources = self._sources(value)
            elif key == "goals":
                found.goals = self._drafts(value, key, fields.GOAL_FIELDS)
            else:
                found.items = self._drafts(value, key, fields.ITEM_FIELDS)
        return found

    def _tell(self, node: Node, at: str, message: str) -> None:
        if not (isinstance(node, Scalar) and node.kind == "refused"):
            self._faults.add(self._file, at, node.line, node.column, message)

    def _spot(self, node: Node, at: str) -> Spot:
        return Spot(self._file, at, node.line, node.column)

    def _list(self, node: Any, at: str, what: str, limit: int) -> list[Any]:
        """The entries of a list; nothing at all is an empty one."""
        if isinstance(node, Scalar) and node.kind == "null":
            return []
        if not isinstance(node, Sequence):
            self._tell(node, at, f"{what} is {kind_of(node)}, not a list")
            return []
        if len(node.entries) > limit:
            self._tell(node, at, f"{what} has {len(node.entries)} entries, more than {limit}")
        return node.entries[:limit]

    def _sources(self, node: Any) -> list[tuple[str, Spot]]:
        found: dict[str, Spot] = {}
        for number, entry in enumerate(self._list(node, "/sources", "sources", MAX_SOURCES)):
            at = pointer("sources", number)
            path = self._text(entry, at, "paths", "sources")
            if path is None:
                continue
            if not path.endswith((".yaml", ".yml")):
                self._tell(entry, at, f"{shown(path)} ends neither in .yaml nor in .yml")
            elif path in found:
                self._tell(entry, at, f"{shown(path)} stands twice")
            else:
                found[path] = self._spot(entry, at)
        return list(found.items())

    def _drafts(self, node: Any, key: str, known: dict[str, str]) -> list[Draft]:
        found = []
        for number, entry in enumerate(self._list(node, pointer(key), key, MAX_ITEMS)):
            at = pointer(key, number)
            if isinstance(entry, Mapping):
                found.append(self._draft(entry, at, known))
            else:
                self._tell(entry, at, f"an entry of {key} is {kind_of(entry)}, not a mapping")
        return found

    def _draft(self, node: Mapping, at: str, known: dict[str, str]) -> Draft:
        draft = Draft(None, self._spot(node, at), node)
        for name, (place, value) in node.entries.items():
            here = at + pointer(name)
            if name not in known:
                self._tell(place, here, f"unknown field {shown(name)}; known: {', '.join(known)}")
                continue
            draft.spots[name, -1] = self._spot(value, here)
            read = self._value(value, here, known[name], name, draft)
            if read is not None:
                draft.values[name] = read
        for name in fields.REQUIRED:
            if name not in node.entries:
                self._tell(node, at, f"the {name} is missing")
        draft.key = draft.values.get("id")
        return draft

    def _value(self, node: Any, at: str, kind: str, name: str, draft: Draft) -> Any:
        if kind in fields.LISTS:
            return self._texts(node, at, kind, name, draft)
        if isinstance(node, Scalar) and node.kind == "null" and name not in fields.REQUIRED:
            return None
        if kind == "priority":
            return self._priority(node, at)
        return self._text(node, at, kind, name)

    def _texts(self, node: Any, at: str, kind: str, name: str, draft: Draft) -> tuple[str, ...]:
        found: dict[str, int] = {}
        for number, entry in enumerate(self._list(node, at, name, fields.MAX_ENTRIES)):
            here = at + pointer(number)
            read = self._text(entry, here, kind, name)
            if read is None:
                continue
            if read in found:
                self._tell(entry, here, f"{shown(read)} stands twice in {name}")
                continue
            draft.spots[name, len(found)] = self._spot(entry, here)
            found[read] = number
        return tuple(found)

    def _text(self, node: Any, at: str, kind: str, name: str) -> str | None:
        if not isinstance(node, Scalar) or node.kind != "text":
            hint = ""
            if isinstance(node, Scalar) and node.kind in ("truth", "integer", "fraction"):
                hint = f"; put it in quotes: '{node.text[:60]}'"
            self._tell(node, at, f"{name} is {kind_of(node)}, not text{hint}")
            return None
        wrong = fields.fault_of(kind, node.text, name)
        if wrong:
            self._tell(node, at, wrong)
            return None
        return node.text

    def _priority(self, node: Any, at: str) -> int | None:
        if isinstance(node, Scalar) and node.kind == "integer" and node.text in "12345":
            return int(node.text)
        found = shown(node.text) if isinstance(node, Scalar) else kind_of(node)
        self._tell(node, at, f"priority is {found}, not a whole number from 1 to 5")
        return None
