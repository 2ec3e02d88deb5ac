"""What the command line writes: one JSON document, or lines and tables for a person.

All text passes through `visible`, so that nothing submitted to the board can move a cursor, change
a colour or turn reading order round. Nothing here knows what a board is.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from callboard.visible import visible

_SPACING = 2
SHORT_ID = 12


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text; `style` are click's own words, such as `fg="red"`."""

    text: str
    style: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of equal length below `headers`."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Hint:
    """What to type next: `next: callboard …`, `lead` before it."""

    text: str
    lead: str = "next: "


Block = str | Line | Table | Hint
Blocks = Callable[[], Iterable[Block]]


def heading(text: str) -> Line:
    """A line that opens a part of a page."""
    return Line(text, (("bold", True),))


def bad(text: str) -> Line:
    """A line that somebody has to look at."""
    return Line(text, (("fg", "red"),))


def faint(text: str) -> Line:
    """A line that may be skipped."""
    return Line(text, (("dim", True),))


def local_time(at_ms: int | None) -> str:
    """Unix ms as local time with its offset; `-` for none."""
    if at_ms is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(at_ms // 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
    return moment.isoformat(sep=" ", timespec="seconds")


def clock(at_ms: int | None, now_ms: int) -> str:
    """Unix ms as the local time of day, with the date where it is another day than `now_ms`."""
    text = local_time(at_ms)
    day, _space, time = text.partition(" ")
    if not time:
        return text
    time = time[:8]
    return time if local_time(now_ms).startswith(day) else f"{day} {time}"


def duration(ms: int) -> str:
    """A length of time in one or two units."""
    seconds = max(ms, 0) // 1000
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days"


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def short(identity: object) -> str:
    """The start of an id, enough for people; `--json` has all of it."""
    return str(identity)[:SHORT_ID]


def document_text(value: Any) -> str:
    """A JSON value on one line, for a person."""
    return document_bytes(value).decode().rstrip("\n")


def document_bytes(document: Any) -> bytes:
    """One JSON document on one line, canonical; text that is no Unicode is written escaped."""
    from callboard.canonical import encode
    from callboard.errors import CallboardError

    try:
        return encode(document) + b"\n"
    except CallboardError as error:
        if error.code != "invalid_unicode":
            raise
        return encode(_mended(document)) + b"\n"


def _mended(value: Any) -> Any:
    """Paths and arguments may hold bytes that are no UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(item) for item in value]
    return value


def emit(context: click.Context, document: Any, text: str | Blocks) -> None:
    """Answer: the document where `--json` stands, before the verb or after it, else the text."""
    chosen = context.obj
    paste = _as_it_is if chosen is None else chosen.pasteable
    if getattr(chosen, "json", False):
        chosen.answered = True
        write_json(with_hints(document, paste))
    else:
        write_text(text.splitlines() if isinstance(text, str) else text(), paste=paste)


def _as_it_is(hint: str) -> str:
    return hint


# What people and policies put into a document is never touched.
_FOREIGN = frozenset(
    {"work", "payload", "result", "descriptor", "details", "policy", "proposed", "operations"}
)


def with_hints(document: Any, paste: Callable[[str], str]) -> Any:
    """The document with every hint in it, a text under `next` or `hint`, made pasteable."""
    if isinstance(document, dict):
        return {name: _with_hints(name, value, paste) for name, value in document.items()}
    if isinstance(document, list):
        return [with_hints(one, paste) for one in document]
    return document


def _with_hints(name: str, value: Any, paste: Callable[[str], str]) -> Any:
    if name in ("hint", "next") and isinstance(value, str):
        return paste(value)
    return value if name in _FOREIGN else with_hints(value, paste)


def write_json(document: Any) -> None:
    """The one document of a `--json` answer."""
    write_bytes(document_bytes(document))


def write_bytes(data: bytes) -> None:
    """Bytes on stdout, as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_text(
    blocks: Iterable[Block], *, err: bool = False, paste: Callable[[str], str] = _as_it_is
) -> None:
    """Lines, tables and hints for a person; `paste` makes hints into what can be typed here."""
    stream = sys.stderr if err else sys.stdout
    for block in blocks:
        if isinstance(block, Table):
            _write_table(block, stream)
            continue
        if isinstance(block, Hint):
            block = Line(block.lead + paste(block.text))
        line = Line(block) if isinstance(block, str) else block
        text = visible(line.text)
        if line.style and coloured(stream):
            text = click.style(text, **dict(line.style))
        _write_line(text, stream)


def _write_line(text: str, stream: Any) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def coloured(stream: Any) -> bool:
    """Whether a person's terminal takes colour, and the person wants it."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _write_table(table: Table, stream: Any) -> None:
    cells = [[visible(cell) for cell in row] for row in table.rows]
    if stream.isatty():
        _write_rich(table.headers, cells, stream)
        return
    rows = [list(table.headers), *cells]
    widths = [max(columns_of(row[column]) for row in rows) for column in range(len(table.headers))]
    for row in rows:
        padded = [
            cell + " " * (width - columns_of(cell) + _SPACING)
            for cell, width in zip(row, widths, strict=True)
        ]
        _write_line("".join(padded).rstrip(), stream)


def columns_of(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _write_rich(headers: Sequence[str], cells: Sequence[Sequence[str]], stream: Any) -> None:
    from rich.console import Console

    console = Console(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        color_system="auto" if coloured(stream) else None,
    )
    console.print(rich_table(headers, cells))


def rich_table(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> Any:
    """A table for a terminal; cells are already visible text and no markup."""
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        drawn.add_column(header, overflow="fold")
    for row in cells:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn
