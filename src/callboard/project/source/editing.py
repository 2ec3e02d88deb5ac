"""A change as edits of the text itself: what is not meant keeps its bytes.

Writing the whole document anew would change indentation, long lines and line ends; here only the
places that a change names are cut out and put in. The result is read again and has to mean exactly
what was asked for. Nothing here touches a file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping as Map
from dataclasses import dataclass
from typing import Any

from callboard.errors import CallboardError
from callboard.project.names import shown
from callboard.project.source import writing
from callboard.project.source.faults import Faults
from callboard.project.source.nodes import Mapping, Scalar, Sequence, parse, plain

_DASH = re.compile(r" *-[ ]+")
_HEADER = re.compile(r"[|>][-+0-9]*")

_NOTHING: tuple[Any, ...] = (("null", ""), [])


@dataclass(frozen=True, slots=True)
class Edit:
    """Text to stand in the place of what is between two others."""

    start: int
    end: int
    text: str
    # What belongs to a value comes before a new field at the same place.
    later: bool = False


class _Unfit(Exception):
    """The text is written in a way that is not changed piece by piece."""


def set_fields(text: str, tree: Any, item: Mapping, values: Map[str, Any]) -> tuple[str, Any]:
    """The text, and its tree, with the fields of one item set; None takes one away.

    Raises `source_edit_refused` where the text is written in a way that has to be changed by hand.
    """
    work = item.entries["id"][1].text
    editor = _Editor(text, tree)
    try:
        for field, value in values.items():
            editor.set_field(item, field, value)
        changed = editor.text()
    except _Unfit as error:
        raise _refused(f"the item {shown(work)}: {error}") from error
    expected = _normal(plain(tree))
    for entry in expected["work_items"]:
        if entry["id"] == ("text", work):
            for field, value in values.items():
                entry[field] = _plain_value(value)
    return _verified(changed, expected)


def add_item(text: str, tree: Any, values: Map[str, Any]) -> tuple[str, Any]:
    """The text, and its tree, with one more item at the end of `work_items`.

    Raises as `set_fields`.
    """
    editor = _Editor(text, tree)
    try:
        editor.add_item(dict(values))
        changed = editor.text()
    except _Unfit as error:
        raise _refused(f"the list of items: {error}") from error
    expected = _normal(plain(tree))
    expected.setdefault("work_items", []).append(
        {field: _plain_value(value) for field, value in values.items()}
    )
    return _verified(changed, expected)


def _verified(text: str, expected: Any) -> tuple[str, Any]:
    faults = Faults()
    tree = parse(text, "", faults)
    if faults.count or _normal(plain(tree)) != _normal(expected):
        raise _refused("the place is written in an unusual way, the outcome would mean another")
    return text, tree


def _refused(what: str) -> CallboardError:
    return CallboardError(
        "source_edit_refused",
        f"{what}; nothing was changed",
        "change the file by hand, then `callboard project source index`",
    )


def _plain_value(value: Any) -> Any:
    if value is None:
        return ("null", "")
    if isinstance(value, list):
        return [_plain_value(entry) for entry in value]
    return ("text", value) if isinstance(value, str) else ("integer", str(value))


def _normal(tree: Any) -> Any:
    """A tree without what means nothing: fields that are empty."""
    if not isinstance(tree, dict):
        return tree
    found = {key: value for key, value in tree.items() if value not in _NOTHING}
    for key in ("goals", "work_items"):
        if key in found:
            found[key] = [_normal(entry) for entry in found[key]]
    return found


class _Editor:
    def __init__(self, text: str, tree: Any) -> None:
        self._text = text
        self._tree = tree
        self._edits: list[Edit] = []
        first = text.find("\n")
        self._eol = "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"

    def text(self) -> str:
        """The text with all edits made."""
        text = self._text
        numbered = sorted(enumerate(self._edits), key=_in_order)
        before = len(text) + 1
        for _, edit in reversed(numbered):
            if edit.end > before:
                raise _Unfit("two changes meet in one place")
            before = edit.start
            text = text[: edit.start] + edit.text + text[edit.end :]
        return text

    # --- fields -------------------------------------------------------------------------------

    def set_field(self, item: Mapping, field: str, value: Any) -> None:
        found = item.entries.get(field)
        if found is None:
            if value not in (None, []):
                self._new_field(item, field, value)
            return
        key, node = found
        if plain(node) in (_NOTHING if value in (None, []) else (_plain_value(value),)):
            return
        if value in (None, []):
            self._take_away(item, key, node, value)
        elif isinstance(value, list):
            self._set_list(item, key, node, value)
        else:
            self._set_scalar(item, key, node, value)

    def _new_field(self, item: Mapping, field: str, value: Any) -> None:
        if item.flow:
            end = max(node.end for _, node in item.entries.values())
            written = writing.flow_list(value) if isinstance(value, list) else writing.scalar(value)
            self._put(end, end, f", {field}: {written}")
            return
        indent = next(iter(item.entries.values()))[0].column - 1
        literal = _literal(value)
        if literal is None:
            lines = writing.block_lines(field, value, indent)
        else:
            margin = " " * indent
            body = [f"{margin}  {line}" if line else "" for line in literal[1]]
            lines = [f"{margin}{field}: {literal[0]}", *body]
        self._lines(self._after(self._end(item)), lines, later=True)

    def _take_away(self, item: Mapping, key: Scalar, node: Any, value: Any) -> None:
        start = self._line_start(key.start)
        if item.flow or self._text[start : key.start].strip(" "):
            nothing = "null" if value is None else "[]"
            if isinstance(node, Sequence) and not node.flow:
                self._drop_entries(key, node, " " + nothing)
            elif isinstance(node, Scalar):
                self._one_line(key, node, nothing)
            else:
                self._put(node.start, node.end, nothing)
            return
        self._put(start, self._after(self._end(node)), "")

    def _set_scalar(self, item: Mapping, key: Scalar, node: Any, value: Any) -> None:
        if not isinstance(node, Scalar):
            raise _Unfit(f"{shown(key.text)} holds more than one value")
        literal = None if item.flow else _literal(value)
        if literal is None:
            style = node.style if node.style in ("'", '"') else ""
            self._one_line(key, node, writing.scalar(value, style))
            return
        header, lines = literal
        # The header stands where the value did, its lines come after the rest of that line.
        self._one_line(key, node, header)
        margin = " " * (key.column + 1)
        below = self._after(self._end(node))
        self._lines(below, [margin + line if line else "" for line in lines])

    def _one_line(self, key: Scalar, node: Scalar, written: str) -> None:
        """Put a value of one line in the place of any scalar."""
        if node.start == node.end:
            colon = "" if self._text[key.end : node.start].endswith(":") else ":"
            self._put(node.start, node.end, f"{colon} {written}")
        elif node.style in ("|", ">"):
            end = self._end(node)
            first_end = self._text.index("\n", node.start) + 1
            header = _HEADER.match(self._text, node.start)
            rest = header.end() if header else node.start
            self._put(node.start, rest, written)
            self._put(first_end, end, "")
        else:
            self._put(node.start, node.end, written)

    # --- lists --------------------------------------------------------------------------------

    def _set_list(self, item: Mapping, key: Scalar, node: Any, values: list[str]) -> None:
        if isinstance(node, Sequence) and node.entries:
            if node.flow:
                self._flow_list(node, values)
            else:
                self._block_list(node, values)
        elif item.flow:
            self._put(
                node.start,
                node.end,
                ("" if node.end > node.start else " ") + writing.flow_list(values),
            )
        else:
            self._entries_below(key, node, [f"- {writing.scalar(entry)}" for entry in values])

    def _entries_below(self, key: Scalar, node: Any, entries: list[str]) -> None:
        """Put a block list in the place of nothing, or of an empty list in one line."""
        colon = self._colon(key)
        self._put(colon, max(node.end, colon), "")
        margin = " " * (key.column + 1)
        self._lines(self._after(max(node.end, colon)), [margin + entry for entry in entries])

    def _flow_list(self, node: Sequence, values: list[str]) -> None:
        if "#" in self._gaps(node):
            raise _Unfit("a list in brackets has comments")
        written = {entry.text: self._text[entry.start : entry.end] for entry in node.entries}
        entries = [written.get(value) or writing.scalar(value) for value in values]
        self._put(node.start, node.end, "[" + ", ".join(entries) + "]")

    def _gaps(self, node: Sequence) -> str:
        """What stands between the entries of a list."""
        place, found = node.start, ""
        for entry in node.entries:
            found += self._text[place : entry.start]
            place = entry.end
        return found + self._text[place : node.end]

    def _block_list(self, node: Sequence, values: list[str]) -> None:
        old = [entry.text for entry in node.entries]
        dash = self._dash(node.entries[0])
        matcher = difflib.SequenceMatcher(None, old, values, autojunk=False)
        for word, i, end, j, new_end in matcher.get_opcodes():
            if word == "equal":
                continue
            both = min(end - i, new_end - j)
            for step in range(both):
                self._entry(node.entries[i + step], values[j + step])
            for entry in node.entries[i + both : end]:
                self._dash(entry)
                self._put(self._line_start(entry.start), self._after(self._end(entry)), "")
            if new_end > j + both:
                place = (
                    self._line_start(node.entries[end].start)
                    if end < len(old)
                    else self._after(self._end(node.entries[-1]))
                )
                fresh = [dash + writing.scalar(value) for value in values[j + both : new_end]]
                self._lines(place, fresh)

    def _entry(self, entry: Scalar, value: str) -> None:
        if entry.style in ("|", ">"):
            end = self._end(entry)
            self._put(entry.start, end, writing.scalar(value) + self._eol)
        else:
            style = entry.style if entry.style in ("'", '"') else ""
            self._put(entry.start, entry.end, writing.scalar(value, style))

    def _drop_entries(self, key: Scalar, node: Sequence, nothing: str) -> None:
        colon = self._colon(key)
        self._put(colon, colon, nothing)
        self._put(self._after(colon), self._after(self._end(node)), "")

    def _dash(self, entry: Any) -> str:
        """What stands before an entry in its line: blanks, a dash, blanks."""
        prefix = self._text[self._line_start(entry.start) : entry.start]
        if not _DASH.fullmatch(prefix):
            raise _Unfit("an entry does not begin in the line of its dash")
        return prefix

    # --- items --------------------------------------------------------------------------------

    def add_item(self, values: dict[str, Any]) -> None:
        tree = self._tree
        if not isinstance(tree, Mapping) or tree.flow:
            raise _Unfit("the file is written in braces")
        found = tree.entries.get("work_items")
        if found is None:
            lines = ["work_items:", *writing.item_lines(values, 2)]
            self._lines(len(self._text), lines)
            return
        key, node = found
        if not isinstance(node, Sequence) or not node.entries:
            self._entries_below(key, node, writing.item_lines(values, 0))
        elif node.flow:
            last = node.entries[-1]
            self._put(last.end, last.end, ", " + writing.flow_item(values))
        else:
            last = node.entries[-1]
            start = self._line_start(last.start)
            dash = re.match(r" *-", self._text[start : last.start])
            if dash is None:
                raise _Unfit("an item does not begin in the line of its dash")
            lines = writing.item_lines(values, len(dash[0]) - 1)
            self._lines(self._after(self._end(last)), lines)

    # --- places -------------------------------------------------------------------------------

    def _put(self, start: int, end: int, text: str) -> None:
        if end > start or text:
            self._edits.append(Edit(start, end, text))

    def _lines(self, place: int, lines: list[str], *, later: bool = False) -> None:
        """Put whole lines at the start of a line, or at the end of the text."""
        text = "".join(line + self._eol for line in lines)
        if place == len(self._text) and place and not self._text.endswith("\n"):
            text = self._eol + text.removesuffix(self._eol)
        self._edits.append(Edit(place, place, text, later))

    def _line_start(self, place: int) -> int:
        return self._text.rfind("\n", 0, place) + 1

    def _after(self, place: int) -> int:
        """The start of the line after the one in which a value ends."""
        if place and self._text[place - 1] == "\n":
            return place
        end = self._text.find("\n", place)
        return len(self._text) if end < 0 else end + 1

    def _colon(self, key: Scalar) -> int:
        found = re.compile(r"[ \t]*:").match(self._text, key.end)
        if found is None:
            raise _Unfit(f"the key {shown(key.text)} has no colon behind it")
        return found.end()

    def _end(self, node: Any) -> int:
        """Where a value ends, without the blank lines that a block of text does not mean."""
        end: int = node.end
        if end and self._text[end - 1] == "\n" and not self._keeps(node):
            body = self._text[:end].rstrip(" \t\r\n")
            return self._after(len(body))
        return end

    def _keeps(self, node: Any) -> bool:
        """Whether a block of text means the blank lines at its end."""
        while isinstance(node, (Mapping, Sequence)) and node.entries:
            rows = node.entries
            node = rows[-1] if isinstance(rows, list) else list(rows.values())[-1][1]
        header = _HEADER.match(self._text, node.start) if isinstance(node, Scalar) else None
        return bool(header and "+" in header[0])


def _in_order(pair: tuple[int, Edit]) -> tuple[int, int, bool, int]:
    """What is put in at a place comes before what is cut out from there on."""
    number, edit = pair
    return edit.start, edit.end, edit.later, number


def _literal(value: Any) -> tuple[str, list[str]] | None:
    """The header and lines of a block of text, for a value of several plain lines."""
    if not isinstance(value, str) or "\n" not in value.removesuffix("\n"):
        return None
    lines = value.removesuffix("\n").split("\n")
    fit = all(line.isprintable() and line == line.rstrip() for line in lines)
    if not fit or lines[0][:1] in ("", " ") or not lines[-1]:
        return None
    return ("|" if value.endswith("\n") else "|-"), lines
