"""Values as YAML: one scalar, one entry, one new item.

What is written is read the same by every YAML reader, the old ones that take `yes` or a date for
something else included; so in doubt it is quoted.
"""

from __future__ import annotations

import json
import re
from typing import Any

from callboard.project.source.fields import ITEM_FIELDS

# Plain words without any sign that means something somewhere.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./+()'-]*(?: [A-Za-z0-9_./+()'-]+)*")
_TAKEN = re.compile(r"y|n|yes|no|on|off|true|false|null|nan|inf|[-+.0-9].*|.* -", re.IGNORECASE)
# JSON leaves these as they are; YAML readers take some of them for line breaks.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def scalar(value: str | int | None, style: str = "") -> str:
    """One value in one line; `style` is the quote it had, kept where that can be."""
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if style == "'" and _one_line(value):
        return "'" + value.replace("'", "''") + "'"
    if style == "" and _PLAIN.fullmatch(value) and not _TAKEN.fullmatch(value):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _one_line(value: str) -> bool:
    return value.isprintable() and not _ESCAPED.search(value)


def flow_list(values: list[str]) -> str:
    """A list in one line."""
    return "[" + ", ".join(scalar(value) for value in values) + "]"


def block_lines(field: str, value: Any, indent: int) -> list[str]:
    """A field with its value as lines without their ends; a list has one line an entry."""
    margin = " " * indent
    if not isinstance(value, list):
        return [f"{margin}{field}: {scalar(value)}"]
    if not value:
        return [f"{margin}{field}: []"]
    return [f"{margin}{field}:", *(f"{margin}  - {scalar(entry)}" for entry in value)]


def item_lines(values: dict[str, Any], indent: int) -> list[str]:
    """A new item as lines of a block list whose dashes stand in column `indent`."""
    lines: list[str] = []
    for field in ITEM_FIELDS:
        if values.get(field) is not None:
            lines += block_lines(field, values[field], indent + 2)
    lines[0] = " " * indent + "- " + lines[0][indent + 2 :]
    return lines


def flow_item(values: dict[str, Any]) -> str:
    """A new item in one line, for a list that is written so."""
    fields = []
    for field in ITEM_FIELDS:
        value = values.get(field)
        if value is not None:
            fields.append(
                f"{field}: {flow_list(value) if isinstance(value, list) else scalar(value)}"
            )
    return "{" + ", ".join(fields) + "}"
