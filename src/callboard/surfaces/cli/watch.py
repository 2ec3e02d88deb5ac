"""The live board of `callboard run --watch`: the columns, the shares and the latest facts.

On a terminal it is redrawn in place, elsewhere it is one plain line a fact. It only looks at the
board; the run goes on the same without it.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from callboard.board.board import Board
from callboard.board.reading.columns import COLUMNS
from callboard.board.reading.overview import overview
from callboard.surfaces.cli.render import coloured, rich_table, write_text
from callboard.surfaces.cli.words import SHARE_HEADERS, share_row
from callboard.visible import visible

_SHOWN = 6
_FACTS = 8


class Watch:
    """What the watcher has seen; `fact` is called for each recorded fact."""

    def __init__(self, board: Board, live: Any | None) -> None:
        self._board = board
        self._live = live
        self._facts: deque[str] = deque(maxlen=_FACTS)

    def fact(self, line: str) -> None:
        """Show one more fact."""
        if self._live is None:
            write_text([line])
            return
        self._facts.append(visible(line))
        self._live.update(self.page())

    def page(self) -> Any:
        """The board as it stands, drawn."""
        from rich.console import Group
        from rich.text import Text

        document = overview(self._board.view(), limit=_SHOWN)
        parts: list[Any] = [_columns(document)]
        table = _share_rows(document)
        if table:
            parts.append(rich_table(SHARE_HEADERS, table))
        parts.extend(Text(fact, style="dim") for fact in self._facts)
        return Group(*parts)


def _columns(document: dict[str, Any]) -> Any:
    columns = document["columns"]
    headers = [f"{name} {columns[name]['count']}" for name in COLUMNS]
    listed = [[visible(one["name"]) for one in columns[name]["works"]] for name in COLUMNS]
    rows = [
        [names[row] if row < len(names) else "" for names in listed]
        for row in range(max((len(names) for names in listed), default=0))
    ]
    return rich_table(headers, rows)


def _share_rows(document: dict[str, Any]) -> list[list[str]]:
    """Turns due and got, a row a key, where more than one key takes part."""
    rows: list[list[str]] = []
    for pool in document["shares"]:
        for one in pool["classes"]:
            if len(one["keys"]) > 1:
                rows += [[visible(cell) for cell in share_row(key)] for key in one["keys"]]
    return rows


@contextlib.contextmanager
def watching(board: Board) -> Iterator[Watch]:
    """A watch on stdout, drawn live where that is a terminal."""
    if not sys.stdout.isatty():
        yield Watch(board, None)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(
        markup=False,
        highlight=False,
        emoji=False,
        color_system="auto" if coloured(sys.stdout) else None,
    )
    with Live(console=console, auto_refresh=False, transient=False) as live:
        watch = Watch(board, _Refreshing(live))
        live.update(watch.page(), refresh=True)
        yield watch


class _Refreshing:
    """A live display that is redrawn on every update."""

    def __init__(self, live: Any) -> None:
        self._live = live

    def update(self, page: Any) -> None:
        self._live.update(page, refresh=True)
