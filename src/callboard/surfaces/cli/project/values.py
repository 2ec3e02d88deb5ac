"""What is typed for a project, as JSON values: objects, lists of changes, pairs.

Only the spelling is read here; what the values mean is judged by the project.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from callboard import canonical
from callboard.errors import CallboardError
from callboard.surfaces.cli.inputs import STANDARD_INPUT, read_input

# As JSON spells it, or nearly: Python also takes digits of other scripts, and underscores.
_FRACTION = re.compile(r"[+-]?[0-9]{1,1000}(?:\.[0-9]{0,1000})?(?:[eE][+-]?[0-9]{1,4})?")

MAX_VALUE_BYTES = 1024 * 1024


class Whole(click.ParamType[int | float]):
    """A number, handed on as it was typed: whether it will do is the project's to say."""

    name = "integer"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        """The number."""
        if re.fullmatch(r"[+-]?[0-9]{1,1000}", value):
            return int(value)
        if _FRACTION.fullmatch(value):
            return float(value)
        return self.fail(f"{value!r} is no number in decimal digits", param, ctx)


def json_value(text: str, *, what: str) -> Any:
    """A JSON value that was typed, or that stands on standard input for `-`."""
    if text == STANDARD_INPUT:
        data = read_input(text, limit_bytes=MAX_VALUE_BYTES, what=what)
    else:
        data = text.encode("utf-8", "surrogateescape")
    return canonical.decode(data, limit_bytes=MAX_VALUE_BYTES)


def pairs_value(pairs: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Names and digests."""
    return [{"ref": ref, "sha256": sha256} for ref, sha256 in pairs]


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of work files: single fields, then those of a file."""

    fields: Sequence[tuple[str, str, str]]
    file: str | None

    def value(self, context: click.Context) -> Any:
        """All of them, those of one item together."""
        items: dict[str, dict[str, Any]] = {}
        for work, field, text in self.fields:
            items.setdefault(work, {})[field] = _lenient(text)
        changes: list[Any] = [{"work": work, "values": values} for work, values in items.items()]
        if self.file is not None:
            read = canonical.decode(
                read_input(self.file, limit_bytes=MAX_VALUE_BYTES, what="list of changes"),
                limit_bytes=MAX_VALUE_BYTES,
            )
            if not changes:
                # Whatever it is, the project says what is wrong with it.
                return read
            if not isinstance(read, list):
                raise click.UsageError("The file of --changes holds no JSON list.", context)
            changes += read
        if not changes and self.file is None:
            raise click.UsageError("Give --set, --changes, or both.", context)
        return changes


def _lenient(text: str) -> Any:
    """JSON where it is some, else the text: a title needs no quotation marks."""
    try:
        return canonical.decode(text.encode("utf-8", "surrogateescape"))
    except CallboardError:
        return text
