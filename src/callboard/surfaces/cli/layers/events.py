"""`callboard layers events`: what happened in layers, once or as it happens.

It only reads; what it has told already is kept for each layer, as the deepest one changes.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen, layers_options
from callboard.surfaces.cli.layers.place import opened, session_option
from callboard.surfaces.cli.render import emit

if TYPE_CHECKING:
    from callboard.layers.layers import Layers

_LOOK_EVERY_MS = 500


@click.command(short_help="Print what happened in a layer.")
@session_option("The layer (default: the deepest of the only tree).")
@click.option(
    "--follow",
    is_flag=True,
    help="Go on as more happens, until Ctrl-C; by default the deepest layer is followed, whichever "
    "that is.",
)
@layers_options
@click.pass_context
def events(ctx: click.Context, session: str | None, follow: bool) -> None:
    """Print a layer's events, one JSON document a line; with --json, all in one document."""
    if follow and ctx.ensure_object(Chosen).json:
        raise click.UsageError(
            "--follow has no end that one document could have; without --json each line is one.",
            ctx,
        )
    reader = _Reader(opened(ctx), session)
    if not follow:
        found = list(reader.new())
        emit(ctx, {"events": found}, lambda: (_line(event) for event in found))
        return
    for event in _following(reader):
        sys.stdout.buffer.write(f"{_line(event)}\n".encode())
        sys.stdout.buffer.flush()


def _line(event: dict[str, Any]) -> str:
    from callboard import canonical

    return canonical.encode(event).decode()


class _Reader:
    """What was not told yet, of the layer that is named or of the deepest one."""

    def __init__(self, layers: Layers, session: str | None) -> None:
        self._layers = layers
        self._named = session
        self._current = session or self._deepest()
        self._told_bytes: dict[str, int] = {}

    def new(self) -> Iterator[dict[str, Any]]:
        """All that has come since; a layer that is no longer the deepest is read to its end."""
        yield from self._of(self._current)
        if self._named is None and (deepest := self._deepest()) != self._current:
            self._current = deepest
            yield from self._of(deepest)

    def _deepest(self) -> str:
        return self._layers.next()[0].layer.session.session_id

    def _of(self, session: str) -> Iterator[dict[str, Any]]:
        for end, event in self._layers.events(session, self._told_bytes.get(session, 0)):
            self._told_bytes[session] = end
            if _is_plain(event):
                yield event


def _is_plain(event: dict[str, Any]) -> bool:
    """Whether it can be told as it is; somebody may have written anything into the file."""
    try:
        return bool(_line(event))
    except CallboardError:
        return False


def _following(reader: _Reader) -> Iterator[dict[str, Any]]:
    """All events, and more as they come; a reader of the output that goes away ends it."""
    gone = select.poll()
    # With no event asked for, a pipe tells of its other end's close and of nothing else.
    gone.register(sys.stdout.fileno(), 0)
    while True:
        yield from reader.new()
        if gone.poll(_LOOK_EVERY_MS):
            raise BrokenPipeError
