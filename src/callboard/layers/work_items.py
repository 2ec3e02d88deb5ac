"""The parent's ledger `work_items.md`: the items in it, and single fields of one item changed.

An item is a heading `## <id>: <title>` with one fenced `yaml` block below it. Everything else is
prose and stays as it is, to the byte. No file is touched here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from callboard.errors import CallboardError
from callboard.layers import names
from callboard.layers.records.items import ItemFields
from callboard.layers.yaml_records.faults import Faults
from callboard.layers.yaml_records.typed import read_yaml
from callboard.visible import visible

MAX_LEDGER_BYTES = 4 * 1024 * 1024
NAME = "work_items.md"

_HEADING = re.compile(r"## +(?P<id>[^:\s]+): *(?P<title>.*?)\s*")
_OPEN = re.compile(r"(?P<fence>`{3,}|~{3,})yaml\s*")
_FIELD = re.compile(r"(?P<name>[a-z_]+):(?P<value>.*)")


@dataclass(frozen=True, slots=True)
class Item:
    """One item; `first` and `end` are the lines of its block's content, counted from 0."""

    item_id: str
    title: str
    fields: ItemFields
    first: int
    end: int


def read(data: bytes) -> tuple[Item, ...]:
    """All items of the ledger, in its order.

    Raises `work_items_invalid` (details: `line`) for text that is no UTF-8, an item without a
    block or with a wrong one, an id that stands twice or that would be confused with another.
    """
    lines = _lines(data)
    found: dict[str, Item] = {}
    for item in _items(lines):
        first = found.setdefault(names.twin(item.item_id), item)
        if first is not item:
            raise _invalid(
                item.first - 1,
                f"the item {visible(item.item_id)!r} stands there after {visible(first.item_id)!r}",
            )
    return tuple(found.values())


def item(data: bytes, item_id: str) -> Item:
    """The item of that id. Raises `work_item_unknown`, and as `read`."""
    items = read(data)
    for found in items:
        if found.item_id == item_id:
            return found
    known = ", ".join(visible(found.item_id) for found in items[:10]) or "none"
    raise CallboardError(
        "work_item_unknown",
        f"{NAME} has no item {visible(item_id)!r}; it has {known}",
        "name an item of the ledger, exactly as its heading has it",
        {"item": item_id},
    )


def changed(data: bytes, item_id: str, values: Mapping[str, str]) -> bytes:
    """The ledger with these fields of one item set; nothing else changes.

    Each is a field on a line of its own, or none yet. Raises as `item`.
    """
    found = item(data, item_id)
    lines = _lines(data)
    ending = "\r\n" if lines[found.first - 1].endswith("\r\n") else "\n"
    for name, value in values.items():
        line = f"{name}: {json.dumps(value, ensure_ascii=False)}{ending}"
        at = _line_of(lines, found, name)
        if at is None:
            lines.insert(found.end, line)
        else:
            lines[at] = line
        # The field may have been a longer one, whose rest would now mean something else.
        found = item("".join(lines).encode(), item_id)
        if getattr(found.fields, name) != value:
            raise _invalid(found.first, f"the field {name!r} of {visible(item_id)!r} is too long")
    return "".join(lines).encode()


# --- parts ---------------------------------------------------------------------------------------


def _lines(data: bytes) -> list[str]:
    try:
        return data.decode().splitlines(keepends=True)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n")
        raise _invalid(line, f"byte {error.start} is no UTF-8") from error


def _items(lines: list[str]) -> Iterator[Item]:
    fence = ""
    heading: tuple[int, re.Match[str]] | None = None
    first = 0
    for number, line in enumerate(lines):
        if fence:
            if line.strip() == fence:
                if heading is not None and first:
                    yield _item(lines, heading, first, number)
                    heading = None
                fence, first = "", 0
            continue
        opened = re.match(r"(`{3,}|~{3,})", line)
        if opened:
            fence = opened[1]
            first = number + 1 if heading is not None and _OPEN.fullmatch(line) else 0
            continue
        matched = _HEADING.fullmatch(line)
        if line.startswith(("## ", "# ")):
            if heading is not None:
                raise _invalid(heading[0], f"the item {visible(heading[1]['id'])!r} has no block")
            heading = (number, matched) if matched else None
    if fence:
        raise _invalid(len(lines) - 1, "a fenced block is not closed")
    if heading is not None:
        raise _invalid(heading[0], f"the item {visible(heading[1]['id'])!r} has no block")


def _item(lines: list[str], heading: tuple[int, re.Match[str]], first: int, end: int) -> Item:
    at, matched = heading
    item_id = names.check_key(matched["id"], "work item id")
    if not matched["title"]:
        raise _invalid(at, f"the item {visible(item_id)!r} has no title")
    faults = Faults()
    found = read_yaml("".join(lines[first:end]).encode(), ItemFields, NAME, faults)
    if found is None:
        fault = faults.in_order()[0]
        raise _invalid(
            first + fault.line - 1, f"{fault.pointer or 'the block'}: {fault.message}", faults.count
        )
    return Item(item_id, matched["title"], found[0], first, end)


def _line_of(lines: list[str], found: Item, name: str) -> int | None:
    for number in range(found.first, found.end):
        matched = _FIELD.match(lines[number])
        if matched and matched["name"] == name:
            return number
    return None


def _invalid(line: int, what: str, count: int = 1) -> CallboardError:
    more = f" (and {count - 1} more in this item)" if count > 1 else ""
    return CallboardError(
        "work_items_invalid",
        f"{NAME} line {line + 1}: {what}{more}",
        "give each item a heading `## id: title` and one fenced yaml block with its fields",
        {"line": line + 1},
    )
