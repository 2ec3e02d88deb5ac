"""What a project's database holds, made comparable with that of another run of the same changes.

Only ids differ between runs, as they are drawn: each becomes its number in the order in which the
history tells of it. Everything else is compared as it is, receipts and their outcomes too.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.project.world import World

Rows = dict[str, list[tuple[Any, ...]]]

_ID = re.compile(r"\b[a-z]_[0-9a-f]{32}\b")
_SEQ, _BODY = 2, 10


def stored(world: World) -> Rows:
    """All rows of all tables, with ids by their number."""
    everything = world.everything()
    numbers: dict[str, str] = {}
    for row in sorted(everything["events"], key=lambda one: int(one[_SEQ])):
        for found in _ID.findall(json.dumps(row)):
            numbers.setdefault(found, f"{found[:2]}{len(numbers)}")

    def plain(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        # An id that no event tells of is an error: nothing would say which one it is.
        return _ID.sub(lambda found: numbers[found[0]], value)

    return {
        table: sorted((tuple(plain(value) for value in row) for row in rows), key=str)
        for table, rows in everything.items()
    }


def requests(world: World) -> list[str]:
    """The request ids that have a receipt."""
    return [str(row[2]) for row in world.rows("receipts")]
