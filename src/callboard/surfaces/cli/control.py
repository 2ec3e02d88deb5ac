"""`callboard cancel`, `pause` and `resume`: a person's own hand on the board.

What they answer is read from the record that stands, never from what was typed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import click

from callboard.board.board import Board, Pause
from callboard.board.projection.state import Projection
from callboard.board.reading.names import Names, find_work
from callboard.surfaces.cli.chosen import (
    board_of,
    board_options,
    reason_option,
    request_option,
)
from callboard.surfaces.cli.render import Block, emit

_WHAT = click.argument("what", type=click.Choice(get_args(Pause)))
_MAX_NAMED = 10


@click.command()
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@reason_option("not_needed")
@request_option
@board_options
@click.pass_context
def cancel(context: click.Context, nodes: tuple[str, ...], reason: str, request_id: str) -> None:
    """End nodes for good, all of them or none. What waits for them stays blocked.

    The run of a node that is under way goes on, without effect, and keeps its place until it ends.
    """
    board = board_of(context)
    projection = board.view().with_history().projection
    found = [find_work(projection, node).work.work_id for node in nodes]
    asked = list(dict.fromkeys(found))
    outcome = board.cancel(asked, reason=reason, request_id=request_id)
    document = board.receipt(outcome, request_id=request_id)
    document.setdefault("works", [])
    emit(context, document, lambda: _cancel_text(board, document, asked))


def _cancel_text(board: Board, document: dict[str, Any], asked: list[str]) -> Iterator[Block]:
    projection = board.view().projection
    names = Names(projection)

    def named(work_ids: list[str]) -> str:
        more = len(work_ids) - _MAX_NAMED
        said = ", ".join(names.label(work_id) for work_id in work_ids[:_MAX_NAMED])
        return f"{said} and {more} more" if more > 0 else said

    ended = document["works"]
    before = [work_id for work_id in asked if work_id not in ended]
    if ended:
        stood = "this request stood already: " if document["replayed"] else ""
        yield f"{stood}ended {named(ended)}: {document['reason']}"
    if before:
        yield f"nothing new: {named(before)} ended before"
    for work_id in document.get("still_running", []):
        yield f"the run of {names.label(work_id)} goes on and keeps its place until it ends"
    blocked = _blocked(projection, asked)
    if blocked:
        yield f"what waits for {'it' if len(asked) == 1 else 'them'} is stuck: {named(blocked)}"


def _blocked(projection: Projection, work_ids: list[str]) -> list[str]:
    return [
        dependent
        for work_id in work_ids
        for dependent in projection.dependents.get(work_id, ())
        if projection.works[dependent].state == "available"
    ]


def _setter(name: str, paused: bool, example: str, text: str) -> click.Command:
    """The command that pauses, or the one that resumes."""

    @click.command(name, help=text)
    @_WHAT
    @reason_option(example)
    @request_option
    @board_options
    @click.pass_context
    def set_(context: click.Context, what: Pause, reason: str, request_id: str) -> None:
        board = board_of(context)
        outcome = board.set_paused(what, paused, reason=reason, request_id=request_id)
        document = {"what": what, "paused": paused, **board.receipt(outcome, request_id=request_id)}
        emit(context, document, lambda: _set_text(document))

    return set_


def _set_text(document: dict[str, Any]) -> Iterator[Block]:
    what, word = document["what"], "paused" if document["paused"] else "open"
    if document["status"] == "already_set":
        yield f"{what}: {word} already"
    elif document["replayed"]:
        why = document.get("reason", "as said before the checkpoint")
        yield f"this request stood already: {what} {word}, {why}"
    else:
        yield f"{what}: {word}, {document['reason']}"


pause = _setter(
    "pause", True, "maintenance", "Pause the admission of nodes, or grants; what runs goes on."
)
resume = _setter("resume", False, "maintenance_over", "Resume the admission of nodes, or grants.")
