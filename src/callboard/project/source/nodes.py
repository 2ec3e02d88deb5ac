"""A work file's text as a tree of values that know their places.

ruamel.yaml says where each value begins and ends; nothing is constructed from the text, so a tag
cannot name a class and an alias cannot grow. What the values mean is judged elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from callboard.project.names import shown
from callboard.project.source.faults import Faults, pointer

MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 12
_MAX_TEXT_FAULTS = 20

BOM = "\ufeff"

# What no editor shows, and what other readers take for a line break. A lone carriage return is one.
_REFUSED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|\r(?!\n)"
)

_COLON = re.compile(r"[ \t]*:")

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


@dataclass(slots=True)
class Node:
    """A value: `start` and `end` are places in the text, `line` and `column` count from 1."""

    start: int
    end: int
    line: int
    column: int


@dataclass(slots=True)
class Scalar(Node):
    """A single value. `kind`: text, null, truth, integer, fraction, or refused (already told)."""

    text: str
    kind: str
    style: str


@dataclass(slots=True)
class Sequence(Node):
    """A list."""

    flow: bool
    entries: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Mapping(Node):
    """Keys with their values, in order; a key that stands twice is told and left out."""

    flow: bool
    entries: dict[str, tuple[Scalar, Any]] = field(default_factory=dict)

    def value(self, key: str) -> Any:
        """The value of `key`, or None."""
        found = self.entries.get(key)
        return None if found is None else found[1]


KINDS = {
    "text": "text",
    "null": "empty",
    "truth": "a truth value",
    "integer": "a number",
    "fraction": "a number",
}


def kind_of(node: Any) -> str:
    """What a value is, in words."""
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Mapping):
        return "a mapping"
    return KINDS.get(node.kind, node.kind) if isinstance(node, Scalar) else "nothing"


def decode(data: bytes, file: str, faults: Faults) -> str | None:
    """The text of a file, without a byte order mark; None where it is not text to be parsed."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        what = f"the byte 0x{data[error.start]:02x} is not UTF-8"
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            what = "the file is UTF-16, not UTF-8"
        faults.add(file, "", line, column, f"{what}; save the file as UTF-8")
        return None
    text = text.removeprefix(BOM)
    clean = True
    for number, found in enumerate(_REFUSED.finditer(text)):
        if number == _MAX_TEXT_FAULTS:
            break
        clean = False
        start = found.start()
        line, column = place(text, start)
        what = "a carriage return alone" if found[0] == "\r" else f"U+{ord(found[0]):04X}"
        faults.add(file, "", line, column, f"{what} is not allowed in a work file")
    return text if clean else None


def place(text: str, index: int) -> tuple[int, int]:
    """Line and column of a place in the text, from 1."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


@dataclass(slots=True)
class _Open:
    """A list or mapping that is being read."""

    node: Any
    key: Scalar | None = None
    last: str | None = None


class _TooDeep(Exception):
    """Reading ends here: what is nested further is not looked at."""


class _Reader:
    """Makes the tree out of the parser's events, one after the other."""

    def __init__(self, text: str, file: str, faults: Faults) -> None:
        self._text = text
        self._file = file
        self._faults = faults
        self._stack: list[_Open] = []
        self.root: Any = None
        self.documents = 0

    def take(self, event: Any) -> None:
        name = type(event).__name__
        if name == "ScalarEvent":
            self._put(self._scalar(event))
        elif name == "AliasEvent":
            self._tell(event, "aliases are not allowed; write the value out")
            self._put(_refused(event))
        elif name in ("MappingStartEvent", "SequenceStartEvent"):
            self._begin(event, name)
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            closed = self._stack.pop().node
            # A block ends where the next thing begins, which may be far below its last value.
            closed.end = event.end_mark.index if closed.flow else _content_end(closed)
        elif name == "DocumentStartEvent":
            self._document(event)

    def _document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            self._tell(event, "a second document begins here; a work file has one")
            raise _TooDeep
        if getattr(event, "version", None) or getattr(event, "tags", None):
            self._tell(event, "directives are not allowed")

    def _begin(self, event: Any, name: str) -> None:
        self._plain(event)
        mark = event.start_mark
        make = Mapping if name == "MappingStartEvent" else Sequence
        node = make(
            mark.index, event.end_mark.index, mark.line + 1, mark.column + 1, bool(event.flow_style)
        )
        self._put(node)
        self._stack.append(_Open(node))
        if len(self._stack) > MAX_DEPTH:
            self._tell(event, f"nested deeper than {MAX_DEPTH} levels")
            raise _TooDeep

    def _scalar(self, event: Any) -> Scalar:
        plain = self._plain(event)
        mark = event.start_mark
        style = event.style or ""
        kind = ("text" if style else _resolved(event.value)) if plain else "refused"
        return Scalar(
            mark.index,
            event.end_mark.index,
            mark.line + 1,
            mark.column + 1,
            event.value,
            kind,
            style,
        )

    def _plain(self, event: Any) -> bool:
        """Whether a value has neither anchor nor tag."""
        tag = getattr(event, "tag", None)
        if getattr(event, "anchor", None):
            self._tell(event, "anchors are not allowed; write the value out")
        elif tag is not None and str(tag) not in ("", "None"):
            self._tell(event, f"the tag {shown(str(tag))} is not allowed; use plain values")
        else:
            return True
        return False

    def _put(self, node: Any) -> None:
        if not self._stack:
            self.root = node
            return
        into = self._stack[-1]
        if isinstance(into.node, Sequence):
            into.node.entries.append(node)
        elif into.key is None:
            into.key = self._key(node)
        else:
            key, into.key = into.key, None
            self._entry(into, key, node)

    def _key(self, node: Any) -> Scalar:
        if isinstance(node, Scalar) and node.kind in ("text", "refused"):
            return node
        self._at(node, f"a key is {kind_of(node)}, not text")
        return Scalar(node.start, node.end, node.line, node.column, "", "refused", "")

    def _entry(self, into: _Open, key: Scalar, node: Any) -> None:
        if key.kind == "refused":
            into.last = None
            return
        into.last = key.text
        entries = into.node.entries
        if key.text in entries:
            first = entries[key.text][0].line
            self._at(key, f"the key {shown(key.text)} stands twice, first in line {first}")
            return
        if isinstance(node, Scalar) and not node.style and not node.text:
            self._nothing(key, node)
        entries[key.text] = (key, node)

    def _nothing(self, key: Scalar, node: Scalar) -> None:
        """A value that is not there is behind its key's colon, not where the next thing begins."""
        colon = _COLON.match(self._text, key.end)
        node.start = node.end = colon.end() if colon else key.end
        node.line, node.column = key.line, key.column + node.start - key.start

    def _tell(self, event: Any, message: str) -> None:
        mark = event.start_mark
        self._faults.add(self._file, self._here(), mark.line + 1, mark.column + 1, message)

    def _at(self, node: Node, message: str) -> None:
        self._faults.add(self._file, self._here(), node.line, node.column, message)

    def _here(self) -> str:
        """The pointer of the value that comes next."""
        steps: list[str | int | None] = []
        for above in self._stack[:-1]:
            taken = above.node.entries
            steps.append(len(taken) - 1 if isinstance(above.node, Sequence) else above.last)
        for here in self._stack[-1:]:
            if isinstance(here.node, Sequence):
                steps.append(len(here.node.entries))
            elif here.key is not None and here.key.kind == "text":
                steps.append(here.key.text)
        return pointer(*(step for step in steps if step is not None))


def parse(text: str, file: str, faults: Faults) -> Any:
    """The tree of a text, or None; what is wrong is added to `faults`.

    A fault of syntax ends the reading, all others do not.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    reader = _Reader(text, file, faults)
    before = faults.count
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            reader.take(event)
    except _TooDeep:
        return None
    except (YAMLError, ValueError, RecursionError, IndexError, TypeError) as error:
        line, column, problem = _problem(error)
        faults.add(file, "", line, column, f"not YAML: {problem}")
        return None
    if reader.root is None and faults.count == before:
        faults.add(file, "", 1, 1, "the file is empty")
    return reader.root


def _content_end(node: Mapping | Sequence) -> int:
    """Where the last value in a block ends."""
    if isinstance(node, Mapping):
        ends = [value.end for _, value in node.entries.values()]
    else:
        ends = [entry.end for entry in node.entries]
    return max(ends, default=node.end)


def _problem(error: Exception) -> tuple[int, int, str]:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).split("\n", 1)[0] or "malformed"
    if mark is None:
        return 1, 1, shown(problem)[1:-1]
    return mark.line + 1, mark.column + 1, shown(problem)[1:-1]


def _refused(event: Any) -> Scalar:
    mark = event.start_mark
    return Scalar(
        mark.index, event.end_mark.index, mark.line + 1, mark.column + 1, "", "refused", ""
    )


def _resolved(text: str) -> str:
    """What a plain value is, by the core schema of YAML 1.2: dates, yes and no are text."""
    if text in _NULL:
        return "null"
    if text in _BOOL:
        return "truth"
    if _INT.fullmatch(text):
        return "integer"
    return "fraction" if _FLOAT.fullmatch(text) else "text"


def plain(node: Any) -> Any:
    """The value of a tree, for comparing: mappings keep their order, scalars their kind."""
    if isinstance(node, Mapping):
        return {key: plain(value) for key, (_, value) in node.entries.items()}
    if isinstance(node, Sequence):
        return [plain(entry) for entry in node.entries]
    if isinstance(node, Scalar):
        return (node.kind, node.text if node.kind != "null" else "")
    return None


def walk(node: Any) -> Iterator[Any]:
    """The node and all below it."""
    yield node
    if isinstance(node, Mapping):
        for key, value in node.entries.values():
            yield key
            yield from walk(value)
    elif isinstance(node, Sequence):
        for entry in node.entries:
            yield from walk(entry)
