"""The parent's ledger `work_items.md`: the items in it, and single fields of one item changed.

An item is a heading `## <id>: <title>` with one fenced `yaml` block below it. Everything else is
prose and stays as it is, to the byte. No file is touched here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec import structs

from callboard.errors import CallboardError
from callboard.layers import names
from callboard.layers.records.items import ItemFields
from callboard.layers.yaml_records.faults import MAX_KEPT, Faults
from callboard.layers.yaml_records.tree import Node
from callboard.layers.yaml_records.typed import read_yaml
from callboard.visible import visible

MAX_LEDGER_BYTES = 4 * 1024 * 1024
NAME = "work_items.md"

_BOM = "\ufeff"
_MAX_TITLE = 1000
_HEADING = re.compile(r"## +(?P<id>[^:\s]+):(?P<title>[^\n]*)\n?")
# As Markdown has it: up to three blanks ahead, and no backtick behind backticks.
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})(?P<info>[^\r\n]*)\r?\n?")


@dataclass(frozen=True, slots=True)
class Item:
    """One item; `heading`, `first` and `end` are lines, counted from 0: of its heading, and of its
    block's content."""

    item_id: str
    title: str
    fields: ItemFields
    heading: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class _Found:
    """Where an item stands, before anything of its block is read."""

    item_id: str
    title: str
    heading: int
    first: int
    end: int


def read(data: bytes) -> tuple[Item, ...]:
    """All items of the ledger, in its order.

    Raises `work_items_invalid` (details: `line` of the first fault; `faults`, each with `line` and
    `message`) for text that is no UTF-8, a fence that is not closed, an item without a block or
    with a wrong one, an id that stands twice or that would be confused with another.
    """
    lines = _lines(data)
    items: list[Item] = []
    wrong: list[tuple[int, str]] = []
    for found in _located(lines):
        result = _read_block(lines, found)
        if isinstance(result, list):
            wrong += result
        else:
            items.append(result[0])
    if wrong:
        raise _invalid(wrong)
    return tuple(items)


def item(data: bytes, item_id: str) -> Item:
    """The item of that id; what is wrong within the block of another one does not matter to it.

    Raises `work_item_unknown`, and as `read`.
    """
    return _the_item(_lines(data), item_id)[0]


def changed(data: bytes, item_id: str, values: Mapping[str, str]) -> bytes:
    """The ledger with these fields of one item set, each on its own line; nothing else changes.

    A field that is not there yet gets a line at the end of the block. Raises as `item`,
    `work_items_invalid` for a field that takes more than one line, and `resource_limit` where the
    ledger would grow past what is read.
    """
    lines = _lines(data)
    for name, value in values.items():
        found, node = _the_item(lines, item_id)
        wanted = structs.replace(found.fields, **{name: value})
        first = lines[found.first - 1]
        ending = "\r\n" if first.endswith("\r\n") else "\n"
        indent, at = _place_of(found, node, name)
        line = f"{' ' * indent}{name}: {json.dumps(value, ensure_ascii=False)}{ending}"
        lines[at : at + (name in node.fields)] = [line]
        _check_changed(lines, item_id, wanted, name, at)
    new = "".join(lines).encode()
    if len(new) > MAX_LEDGER_BYTES:
        raise CallboardError(
            "resource_limit",
            f"{NAME} would have {len(new)} bytes, more than {MAX_LEDGER_BYTES} are ever read",
            "take finished items and long prose out of it",
            {"bytes": len(new), "limit_bytes": MAX_LEDGER_BYTES},
        )
    return new


# --- finding --------------------------------------------------------------------------------------


def _lines(data: bytes) -> list[str]:
    """The lines with their endings; a line ends at a line feed and at nothing else."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n")
        raise _invalid([(line, f"byte {error.start} is no UTF-8")]) from error
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _located(lines: list[str]) -> list[_Found]:
    """All items by their headings and fences alone."""
    found: dict[str, _Found] = {}
    for one in _blocks(lines):
        first = found.setdefault(names.twin(one.item_id), one)
        if first is not one:
            what = f"the item {visible(one.item_id)!r} stands there after {first.item_id!r}"
            raise _invalid([(one.heading, f"{what} in line {first.heading + 1}")])
    return list(found.values())


def _blocks(lines: list[str]) -> Iterator[_Found]:
    heading: tuple[int, str, str] | None = None
    opened: tuple[int, str, bool] | None = None
    for number, line in enumerate(lines):
        text = line.removeprefix(_BOM) if number == 0 else line
        fence = _FENCE.fullmatch(text)
        if opened is not None:
            first, mark, is_item = opened
            if fence is None or not _closes(fence, mark):
                continue
            if is_item and heading is not None:
                yield _Found(heading[1], heading[2], heading[0], first, number)
                heading = None
            opened = None
        elif fence is not None:
            is_item = fence["info"].strip() == "yaml" and not text.startswith(" ")
            opened = (number + 1, fence["fence"], is_item)
        elif text.startswith(("## ", "# ")):
            if heading is not None:
                raise _without_block(heading)
            heading = _heading(text, number)
    if opened is not None:
        raise _invalid([(opened[0] - 1, "the fenced block that begins here is not closed")])
    if heading is not None:
        raise _without_block(heading)


def _closes(fence: re.Match[str], mark: str) -> bool:
    found = fence["fence"]
    return not fence["info"].strip() and found[0] == mark[0] and len(found) >= len(mark)


def _heading(text: str, number: int) -> tuple[int, str, str] | None:
    """The line, id and title of an item; None: a heading of prose."""
    matched = _HEADING.fullmatch(text)
    if matched is None:
        return None
    try:
        item_id = names.check_key(matched["id"], "work item id")
    except CallboardError as error:
        raise _invalid([(number, error.message)]) from error
    title = matched["title"].strip(" \t\r")
    if not title:
        raise _invalid([(number, f"the item {item_id!r} has no title")])
    if visible(title) != title or len(title) > _MAX_TITLE:
        what = f"longer than {_MAX_TITLE} characters, or has some that cannot be seen"
        raise _invalid([(number, f"the title of the item {item_id!r} is {what}")])
    return number, item_id, title


def _without_block(heading: tuple[int, str, str]) -> CallboardError:
    what = f"the item {heading[1]!r} has no fenced yaml block below its heading"
    return _invalid([(heading[0], what)])


# --- reading one ----------------------------------------------------------------------------------


def _read_block(lines: list[str], found: _Found) -> tuple[Item, Node] | list[tuple[int, str]]:
    """The item and the tree of its block, or all that is wrong in there."""
    faults = Faults()
    block = "".join(lines[found.first : found.end]).encode()
    result = read_yaml(block, ItemFields, NAME, faults)
    # A key that stands twice, or a directive, spoils the block and not its record.
    if result is None:
        return [
            (found.first + one.line - 1, f"{one.pointer or 'the block'}: {one.message}")
            for one in faults.in_order()
        ]
    fields, node = result
    read_item = Item(found.item_id, found.title, fields, found.heading, found.first, found.end)
    return read_item, node


def _the_item(lines: list[str], item_id: str) -> tuple[Item, Node]:
    located = _located(lines)
    for found in located:
        if found.item_id == item_id:
            result = _read_block(lines, found)
            if isinstance(result, list):
                raise _invalid(result)
            return result
    known = ", ".join(visible(found.item_id) for found in located[:10]) or "none"
    raise CallboardError(
        "work_item_unknown",
        f"{NAME} has no item '{visible(item_id[:200])}'; it has {known}",
        "name an item of the ledger, exactly as its heading has it",
        {"item": visible(item_id[:200])},
    )


# --- changing -------------------------------------------------------------------------------------


def _place_of(found: Item, node: Node, name: str) -> tuple[int, int]:
    """How far the fields of a block are indented, and the line of this one or of a new one."""
    keys = [key for key, _ in node.fields.values()]
    indent = keys[0].column - 1
    if name in node.fields:
        return indent, found.first + node.fields[name][0].line - 1
    return indent, found.end


def _check_changed(
    lines: list[str], item_id: str, wanted: ItemFields, name: str, line: int
) -> None:
    """That the change of one line changed one field: its old value may have had several lines."""
    try:
        is_right = _the_item(lines, item_id)[0].fields == wanted
    except CallboardError:
        is_right = False
    if not is_right:
        what = f"the field {name!r} of the item {item_id!r} has to be one line of its block"
        raise _invalid([(line, what)])


def _invalid(faults: list[tuple[int, str]]) -> CallboardError:
    """`faults` are lines, counted from 0, and what is wrong there."""
    line, what = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return CallboardError(
        "work_items_invalid",
        f"{NAME} line {line + 1}: {what}{more}",
        "give each item a heading `## id: title` and one fenced yaml block with its fields",
        {
            "line": line + 1,
            "faults": [{"line": at + 1, "message": told} for at, told in faults[:MAX_KEPT]],
        },
    )
