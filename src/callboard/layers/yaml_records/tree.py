"""The text of a YAML file as a tree of plain values that know their places.

Nothing is constructed from the text, so a tag cannot name a class and an alias cannot grow:
anchors, aliases, tags and directives are faults. What the values mean is judged elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from callboard.layers.yaml_records.faults import Faults, pointer, quoted

MAX_YAML_BYTES = 256 * 1024
"""More is refused before anything of a file is parsed."""
MAX_DEPTH = 12
MAX_VALUES = 20_000
"""Keys, values, lists and mappings of one file; reading ends there, within a second or two."""
_MAX_DIGITS = 18

# What no editor shows, and what other readers take for a line break. A lone carriage return is one.
_REFUSED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|\r(?!\n)"
)
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FRACTION = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_WORDS = {
    "null": "empty",
    "truth": "a truth value",
    "text": "text",
    "integer": "a whole number",
    "fraction": "a fraction",
    "list": "a list",
    "mapping": "a mapping",
}


@dataclass(slots=True)
class Node:
    """A value. `kind`: null, truth, text, integer, fraction, list, mapping, or refused (told).

    A list has `entries`; a mapping has `fields`, each with the node of its key.
    """

    kind: str
    line: int
    column: int
    scalar: Any = None
    entries: list[Node] = field(default_factory=list)
    fields: dict[str, tuple[Node, Node]] = field(default_factory=dict)

    def described(self) -> str:
        """What stands there, in words."""
        if self.kind in ("text", "integer", "fraction", "truth"):
            return f"{_WORDS[self.kind]}, {quoted(str(self.scalar))}"
        return _WORDS.get(self.kind, self.kind)

    def plain(self) -> Any:
        """The value as JSON has it."""
        if self.kind == "list":
            return [entry.plain() for entry in self.entries]
        if self.kind == "mapping":
            return {key: value.plain() for key, (_, value) in self.fields.items()}
        return self.scalar

    def is_refused(self) -> bool:
        """Whether the fault of something in here was told already."""
        below = [value for _, value in self.fields.values()] + self.entries
        return self.kind == "refused" or any(node.is_refused() for node in below)

    def at(self, *steps: str | int) -> Node:
        """The node below; where a step is not there, the last one above it."""
        node = self
        for step in steps:
            if isinstance(step, int) and step < len(node.entries):
                node = node.entries[step]
            elif isinstance(step, str) and step in node.fields:
                node = node.fields[step][1]
            else:
                break
        return node


def text_of(data: bytes, file: str, faults: Faults) -> str | None:
    """The text of a file without a byte order mark; None where it is no plain UTF-8 text."""
    before = faults.count
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before_it = data[: error.start].decode("utf-8")
        ((line, column),) = places(before_it, [len(before_it)])
        what = f"the byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        faults.add(file, line, column, "", what)
        return None
    refused = [found.start() for found in _REFUSED.finditer(text)]
    for index, (line, column) in zip(refused, places(text, refused), strict=True):
        faults.add(file, line, column, "", f"the character U+{ord(text[index]):04X} is not allowed")
    return text if faults.count == before else None


def places(text: str, indexes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Lines and columns, from 1, of ascending places in the text, which is gone through once."""
    line, begin, at = 1, 0, 0
    for index in indexes:
        breaks = text.count("\n", at, index)
        if breaks:
            line += breaks
            begin = text.rfind("\n", at, index) + 1
        at = index
        yield line, index - begin + 1


def parse(data: bytes, file: str, faults: Faults) -> Node | None:
    """The tree of a file, or None; what is wrong is added to `faults`.

    A fault of syntax ends the reading, all others do not.
    """
    if len(data) > MAX_YAML_BYTES:
        faults.add(file, 1, 1, "", f"has {len(data)} bytes, more than {MAX_YAML_BYTES}")
        return None
    text = text_of(data, file, faults)
    if text is None:
        return None
    before = faults.count
    reader = _Reader(file, faults)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            reader.take(event)
    except _EndReading:
        return None
    except (YAMLError, ValueError, RecursionError, IndexError, TypeError) as error:
        # The last four are what the parser itself stumbles over in some broken texts.
        mark = getattr(error, "problem_mark", None)
        line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        faults.add(file, line, column, "", f"not YAML: {quoted(str(problem))[1:-1]}")
        return None
    if reader.root is None and faults.count == before:
        faults.add(file, 1, 1, "", "the file is empty")
    return reader.root


class _EndReading(Exception):
    """What comes further is not looked at."""


@dataclass(slots=True)
class _Open:
    """A list or mapping that is being read: the key whose value comes next, or came last."""

    node: Node
    is_bare: bool
    key: Node | None = None
    last: Node | None = None


class _Reader:
    """Makes the tree out of the parser's events, one after the other."""

    def __init__(self, file: str, faults: Faults) -> None:
        self._file = file
        self._faults = faults
        self._open: list[_Open] = []
        self._documents = 0
        self._values = 0
        self.root: Node | None = None

    def take(self, event: Any) -> None:
        name = type(event).__name__
        if name == "ScalarEvent":
            self._put(self._scalar(event))
        elif name == "AliasEvent":
            self._tell(_node("refused", event), "aliases are not allowed; write the value out")
            self._put(_node("refused", event))
        elif name in ("MappingStartEvent", "SequenceStartEvent"):
            self._begin(event, "mapping" if name == "MappingStartEvent" else "list")
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            closed = self._open.pop()
            if not closed.is_bare:
                closed.node.kind = "refused"
        elif name == "DocumentStartEvent":
            self._document(event)

    def _document(self, event: Any) -> None:
        self._documents += 1
        node = _node("refused", event)
        if self._documents > 1:
            self._tell(node, "a second document begins here; the file may have one")
            raise _EndReading
        if getattr(event, "version", None) or getattr(event, "tags", None):
            self._tell(node, "directives are not allowed")

    def _begin(self, event: Any, kind: str) -> None:
        is_bare = self._check_bare(event)
        node = _node(kind, event)
        self._put(node)
        self._open.append(_Open(node, is_bare))
        if len(self._open) > MAX_DEPTH:
            self._tell(node, f"nested deeper than {MAX_DEPTH} levels")
            raise _EndReading

    def _scalar(self, event: Any) -> Node:
        node = _node("refused", event)
        if self._check_bare(event):
            node.kind, node.scalar = _resolved(event.value, bool(event.style))
        if node.kind == "large":
            self._tell(node, f"{quoted(event.value)} is no number that could be meant")
            node.kind = "refused"
        return node

    def _check_bare(self, event: Any) -> bool:
        """Whether a value has neither anchor nor tag."""
        node = _node("refused", event)
        if getattr(event, "anchor", None):
            self._tell(node, "anchors are not allowed; write the value out")
            return False
        tag = getattr(event, "tag", None)
        if tag is not None and str(tag) not in ("", "None"):
            self._tell(node, f"the tag {quoted(str(tag))} is not allowed; use plain values")
            return False
        return True

    def _put(self, node: Node) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            self._tell(node, f"more than {MAX_VALUES} values; nothing beyond is read")
            raise _EndReading
        if not self._open:
            self.root = node
            return
        into = self._open[-1]
        if into.node.kind == "list":
            into.node.entries.append(node)
        elif into.key is None:
            into.key = node
            if node.kind not in ("text", "refused"):
                self._tell(node, f"a key is {node.described()}, not text")
                # A mapping or list as a key is read on, and comes to nothing.
                into.key = Node("refused", node.line, node.column)
        else:
            key, into.key, into.last = into.key, None, into.key
            self._entry(into.node, key, node)

    def _entry(self, mapping: Node, key: Node, value: Node) -> None:
        if key.kind == "refused":
            return
        if key.scalar in mapping.fields:
            first = mapping.fields[key.scalar][0].line
            text = f"the key {quoted(key.scalar)} stands twice, first in line {first}"
            self._faults.add(self._file, key.line, key.column, self._here(key.scalar), text)
            return
        mapping.fields[key.scalar] = (key, value)

    def _tell(self, node: Node, message: str) -> None:
        self._faults.add(self._file, node.line, node.column, self._here(), message)

    def _here(self, *more: str) -> str:
        """The pointer of the value that comes next."""
        steps: list[str | int] = []
        for above in self._open:
            inside = above is not self._open[-1]
            key = above.last if inside else above.key
            if above.node.kind == "list":
                steps.append(len(above.node.entries) - inside)
            elif key is not None and key.kind == "text":
                steps.append(key.scalar)
        return pointer(*steps, *more)


def _node(kind: str, event: Any) -> Node:
    return Node(kind, event.start_mark.line + 1, event.start_mark.column + 1)


def _resolved(text: str, is_quoted: bool) -> tuple[str, Any]:
    """What a scalar is, by the core schema of YAML 1.2: dates, yes and no are text."""
    if is_quoted:
        return "text", text
    if text in _NULL:
        return "null", None
    if text in _TRUE or text in _FALSE:
        return "truth", text in _TRUE
    if _INTEGER.fullmatch(text):
        return ("integer", int(text)) if len(text) <= _MAX_DIGITS else ("large", None)
    return ("fraction", text) if _FRACTION.fullmatch(text) else ("text", text)
