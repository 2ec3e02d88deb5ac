"""`callboard layers run`: coordinates a tree, tells each step, and pauses when it is asked to."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING

import click

from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen, layers_options
from callboard.surfaces.cli.endings import NOTHING
from callboard.surfaces.cli.layers.place import opened, session_option
from callboard.surfaces.cli.layers.words import (
    of_tree,
    plain_document,
    refused_line,
    step_line,
    step_text,
)
from callboard.surfaces.cli.render import emit, write_text

if TYPE_CHECKING:
    from callboard.layers.coordinating import Step


@click.command(short_help="Work on a tree until it is over.")
@click.option("--once", is_flag=True, help="One step alone.")
@session_option()
@layers_options
@click.pass_context
def run(ctx: click.Context, session: str | None, once: bool) -> None:
    """Coordinate the layers of a tree until its root is over; each step is told as it is done.

    Ctrl-C pauses: an agent that is at work goes on, and the next run takes up what it did. Ends
    with 0 where the goal is met, with 1 where the tree ended otherwise (goal_not_met), with 3 where
    it paused, and with 4 where another process coordinates the layers of this repository.
    """
    layers = opened(ctx)
    # The one step of --once is what the command answers with.
    told = _silent if once or ctx.ensure_object(Chosen).json else _tell
    with _pausing() as stop:
        last = layers.run(session, once=once, stop=stop, told=told)
    emit(ctx, {"step": plain_document(last)}, lambda: step_text(last, session))
    if last.did == "paused":
        ctx.exit(NOTHING)
    if last.did == "over" and last.detail != "goal_met":
        raise CallboardError(
            "goal_not_met",
            f"the tree is over, and its goal is not met: {last.detail}",
            f"look at what became of each layer: {of_tree('callboard layers status', session)}",
            {"session_id": last.session_id, "stop_reason": last.detail},
        )


@contextmanager
def _pausing() -> Iterator[Event]:
    """What is set by Ctrl-C and by SIGTERM, while this lasts."""
    stop = Event()

    def pause(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, pause) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(step: Step) -> None:
    if step.did in ("over", "paused"):
        return
    if step.refused:
        write_text([refused_line(step)], err=True)
    write_text([step_line(step)], err=True)


def _silent(_step: Step) -> None:
    """Nothing but the answer is wanted."""
