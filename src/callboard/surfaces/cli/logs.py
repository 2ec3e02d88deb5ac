"""`callboard logs`: the ends of a run's logs, as far as this machine has them.

What a run wrote is shown, never interpreted, and can act on no terminal. Nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from callboard.board.board import Board
from callboard.board.execution.host import Log
from callboard.board.projection.entities import DispatchState
from callboard.board.projection.state import Projection
from callboard.board.reading.attempts import launches_of
from callboard.board.reading.names import MIN_PREFIX, Names, find_work
from callboard.board.reading.timing import timing_text
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import board_of, board_options
from callboard.surfaces.cli.render import Block, count, emit, faint, heading
from callboard.surfaces.cli.stage_words import name_text
from callboard.surfaces.cli.stamp import stamp_text

DEFAULT_TAIL = 4_096
MAX_TAIL = 16_777_216


@click.command()
@click.argument("node", required=False)
@click.option("--run", "run_id", metavar="ID", help="That run, by its id or the start of it.")
@click.option(
    "--tail",
    type=click.IntRange(1, MAX_TAIL),
    default=DEFAULT_TAIL,
    show_default=True,
    metavar="BYTES",
    help="The most bytes of each log, from its end.",
)
@board_options
@click.pass_context
def logs(context: click.Context, node: str | None, run_id: str | None, tail: int) -> None:
    """Print the ends of the logs of a NODE's last run, or of one run by its id."""
    if (node is None) == (run_id is None):
        raise click.UsageError("Give exactly one of NODE, --run.")
    board = board_of(context)
    view = board.view().with_history()
    dispatch, found_id = (
        _of_node(board, view.projection, node)
        if node is not None
        else _of_run(view.projection, str(run_id))
    )
    found = board.host.logs(dispatch, found_id, tail)
    if not found:
        raise CallboardError(
            "logs_missing",
            f"this machine has no logs of run {found_id}",
            "they are where the run was: with the user and on the machine that ran it",
            {"run_id": found_id, "dispatch_id": dispatch.assignment.dispatch_id},
        )
    document = {
        **view.stamp(),
        "run_id": found_id,
        "dispatch_id": dispatch.assignment.dispatch_id,
        "names": _names(view.projection, dispatch),
        "timing": board.host.timing(found_id),
        "logs": [_log(one) for one in found],
    }
    emit(context, document, lambda: _text(document))


def _of_node(board: Board, projection: Projection, node: str) -> tuple[DispatchState, str]:
    """The last launch of a node that has a run, as far as board and machine know."""
    state = find_work(projection, node)
    for dispatch in launches_of(projection, state.work.work_id):
        run_id = board.host.run_of(dispatch)
        if run_id is not None:
            return dispatch, run_id
    typed = Names(projection).typed(state.work.work_id)
    raise CallboardError(
        "logs_missing",
        f"no run of {node[:80]!r} is known, neither on the board nor on this machine",
        f"callboard explain {typed}",
        {"work_id": state.work.work_id},
    )


def _of_run(projection: Projection, text: str) -> tuple[DispatchState, str]:
    """The launch that a run is bound to, by the run's id or an unambiguous start of it."""
    found = [text] if text in projection.runs else []
    if not found and len(text) >= MIN_PREFIX:
        found = [run_id for run_id in projection.runs if run_id.startswith(text)]
    if len(found) != 1:
        what = f"has no run {text[:80]!r}" if not found else f"has {len(found)} runs {text!r}"
        raise CallboardError(
            "run_unknown",
            f"the board {what}",
            "give its id as `callboard show NODE` prints it",
            {"count": len(found)},
        )
    return projection.dispatches[projection.runs[found[0]]], found[0]


def _names(projection: Projection, dispatch: DispatchState) -> list[str]:
    names = Names(projection)
    return [names.label(member.work_id) for member in dispatch.assignment.claims]


def _log(log: Log) -> dict[str, Any]:
    """`text` is the log's end; bytes that are no UTF-8 are written as escapes."""
    text = log.data.decode("utf-8", "backslashreplace")
    return {"name": log.name, "bytes": len(log.data), "is_cut": log.is_cut, "text": text}


def _text(document: dict[str, Any]) -> Iterator[Block]:
    names = ", ".join(name_text(name) for name in document["names"])
    yield heading(f"run {document['run_id']} of {names}")
    if said := timing_text(document["timing"]):
        yield said
    for one in document["logs"]:
        size = count(one["bytes"], "byte")
        if not one["bytes"]:
            yield faint(f"{one['name']}: empty")
            continue
        extent = f"the last {size}" if one["is_cut"] else size
        yield heading(f"{one['name']}: {extent}")
        for line in one["text"].removesuffix("\n").split("\n"):
            yield f"  {line}"
    yield faint(stamp_text(document))
