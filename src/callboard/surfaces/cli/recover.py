"""`callboard reconcile` and `callboard stop`: looking after what is under way.

They tell what was found and what a person may type next. Nothing is decided here, and nothing that
they print frees a place.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from callboard.board.board import Board
from callboard.board.reading.advice import RECONCILE
from callboard.board.reading.attempts import launches_of
from callboard.board.reading.columns import Columns, Placed
from callboard.board.reading.names import find_dispatch, find_work
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import board_of, board_options
from callboard.surfaces.cli.dispatch import stopping
from callboard.surfaces.cli.endings import INTERRUPTED, NOTHING, TERMINATED
from callboard.surfaces.cli.left_words import refusal_text
from callboard.surfaces.cli.render import Block, Hint, count, emit, write_text
from callboard.surfaces.cli.words import found_text

if TYPE_CHECKING:
    from callboard.board.execution.recovery import Found

MAX_NAMED = 10


@click.command()
@click.option("--watch", is_flag=True, help="Go on looking until told to stop.")
@click.option("--no-start", is_flag=True, help="Leave what was granted and never started as it is.")
@board_options
@click.pass_context
def reconcile(context: click.Context, watch: bool, no_start: bool) -> None:
    """Find out what became of open launches and deliveries, and settle what is proven.

    Grants nothing. A granted batch that was never started is started. Ends with 3 where something
    stays open that needs a person.
    """
    board = board_of(context)
    stop = threading.Event()

    def on_found(found: Found) -> None:
        if watch:
            write_text(_lines(_told(Columns(board.view()), found)), err=True)

    with stopping(stop) as signals:
        last = board.reconcile(
            os.environ, start=not no_start, watch=watch, stop=stop, on_found=on_found
        )
    document = _document(board, last)
    emit(context, document, lambda: _text(document))
    if signals and signals[0] != signal.SIGTERM and not watch:
        context.exit(INTERRUPTED)
    if signals and not watch:
        context.exit(TERMINATED)
    if document["needs"]["person"]:
        context.exit(NOTHING)


def _document(board: Board, last: list[Found]) -> dict[str, Any]:
    needs = {"settled": 0, "time": 0, "person": 0}
    for one in last:
        needs[one.needs] += 1
    view = board.view()
    columns = Columns(view)
    return {**view.stamp(), "needs": needs, "found": [_told(columns, one) for one in last]}


def _told(columns: Columns, found: Found) -> dict[str, Any]:
    """A finding with the names of its nodes, and what the board says to type next."""
    names = [columns.names.label(one) for one in found.work_ids]
    document = {**found.document(), "names": names}
    placed = [columns.place(columns.work(one)) for one in found.work_ids]
    steps = list(dict.fromkeys(_step(columns, one) for one in placed if one.next is not None))
    return document | ({"next": steps} if found.needs == "person" and steps else {})


def _step(columns: Columns, placed: Placed) -> str:
    """What to type next; to reconcile was of no use here, so that the evidence says where it is."""
    if placed.next != RECONCILE:
        return str(placed.next)
    return f"callboard explain {columns.names.typed(placed.state.work.work_id)}"


def _text(document: dict[str, Any]) -> Iterator[Block]:
    needs = document["needs"]
    if not document["found"]:
        yield "nothing is open"
        return
    said = [
        count(needs[name], one, many)
        for name, one, many in (
            ("settled", "thing settled", "things settled"),
            ("time", "still open", "still open"),
            ("person", "needs a person", "need a person"),
        )
        if needs[name]
    ]
    yield ", ".join(said)
    for one in document["found"]:
        yield from _lines(one)


def _lines(one: dict[str, Any]) -> Iterator[Block]:
    names = one["names"]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    yield f"  {', '.join(names[:MAX_NAMED])}{more}: {found_text(one)}"
    if "trouble" in one:
        yield f"    {refusal_text(one['trouble'])}"
    for step in one.get("next", ()):
        yield Hint(step)


@click.command()
@click.argument("node", required=False)
@click.option("--dispatch", "dispatch_id", metavar="ID", help="The launch, instead of a node.")
@board_options
@click.pass_context
def stop(context: click.Context, node: str | None, dispatch_id: str | None) -> None:
    """Ask the run of NODE to end. Every node of that run is hit.

    Its open Claims end as failed attempts, and are tried again within their limits; cancel a node
    before, to end it for good. What was completed stays completed. The place is free once the run
    has ended.
    """
    if (node is None) == (dispatch_id is None):
        raise click.UsageError("Name a node, or a launch with --dispatch.")
    board = board_of(context)
    projection = board.view().with_history().projection
    if dispatch_id is not None:
        found = find_dispatch(projection, dispatch_id).assignment.dispatch_id
    else:
        found = _dispatch_of(board, str(node))
    answer = board.stop_run(found)
    names = Columns(board.view()).names
    document = {
        **board.view().stamp(),
        "dispatch_id": answer.dispatch_id,
        "run_id": answer.run_id,
        "status": answer.answer,
        "work_ids": list(answer.work_ids),
        "names": [names.label(one) for one in answer.work_ids],
    }
    emit(context, document, lambda: _stop_text(document))


def _dispatch_of(board: Board, node: str) -> str:
    """The launch whose run is under way for a node."""
    projection = board.view().projection
    state = find_work(projection, node)
    # A node that was cancelled, or is completed, has no Claim any more, and its run may go on.
    launches = launches_of(projection, state.work.work_id)
    if not launches or launches[0].released:
        raise CallboardError(
            "nothing_running",
            f"no run of node {state.work.node_key!r} is under way: it is {state.state}",
            "callboard status",
            {"work_id": state.work.work_id, "state": state.state},
        )
    return launches[0].assignment.dispatch_id


def _stop_text(document: dict[str, Any]) -> Iterator[Block]:
    names = ", ".join(document["names"])
    if document["status"] == "asked":
        yield f"asked run {document['run_id']} to end: {names}"
        yield "its place stays taken until it has ended"
    else:
        yield f"run {document['run_id']} has ended: {names}"
    yield Hint("callboard status" if document["status"] == "asked" else "callboard reconcile")
