"""`callboard cancel`, `pause` and `resume`: a person's own hand on the board."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from callboard.board.board import Board, Pause, new_request_id
from callboard.board.reading.names import Names, find_work
from callboard.surfaces.cli.chosen import (
    board_of,
    board_options,
    reason_option,
    request_option,
)
from callboard.surfaces.cli.render import Block, emit

_WHAT = click.argument("what", type=click.Choice(["admission", "grants"]))


@click.command()
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@reason_option
@request_option
@board_options
@click.pass_context
def cancel(
    context: click.Context, nodes: tuple[str, ...], reason: str, request_id: str | None
) -> None:
    """End nodes for good, all of them or none. What waits for them stays blocked."""
    board = board_of(context)
    projection = board.view().with_history().projection
    found = [find_work(projection, node).work.work_id for node in nodes]
    work_ids = list(dict.fromkeys(found))
    identity = request_id or new_request_id()
    outcome = board.cancel(work_ids, reason=reason, request_id=identity)
    document = board.receipt(outcome, request_id=identity)
    document["works"] = work_ids
    names = Names(board.view().projection)
    labels = ", ".join(names.label(work_id) for work_id in work_ids)

    def text() -> Iterator[Block]:
        if document["status"] == "already_cancelled":
            yield f"nothing new: {labels} ended before"
        elif document["replayed"]:
            yield f"this request stood already: {labels} ended, {reason}"
        else:
            yield f"ended {labels}: {reason}"
        blocked = _blocked(board, work_ids)
        if blocked:
            yield f"what waits for them is stuck: {', '.join(blocked[:10])}"

    emit(context, document, text)


def _blocked(board: Board, work_ids: list[str]) -> list[str]:
    projection = board.view().projection
    names = Names(projection)
    return [
        names.label(dependent)
        for work_id in work_ids
        for dependent in projection.dependents.get(work_id, ())
        if projection.works[dependent].state == "available"
    ]


@click.command()
@_WHAT
@reason_option
@request_option
@board_options
@click.pass_context
def pause(context: click.Context, what: Pause, reason: str, request_id: str | None) -> None:
    """Pause the admission of nodes, or grants; what runs goes on."""
    _set(context, what, True, reason, request_id)


@click.command()
@_WHAT
@reason_option
@request_option
@board_options
@click.pass_context
def resume(context: click.Context, what: Pause, reason: str, request_id: str | None) -> None:
    """Resume the admission of nodes, or grants."""
    _set(context, what, False, reason, request_id)


def _set(
    context: click.Context, what: Pause, paused: bool, reason: str, request_id: str | None
) -> None:
    board = board_of(context)
    identity = request_id or new_request_id()
    outcome = board.set_paused(what, paused, reason=reason, request_id=identity)
    document: dict[str, Any] = board.receipt(outcome, request_id=identity)
    document |= {"what": what, "paused": paused}
    word = "paused" if paused else "open"

    def text() -> Iterator[Block]:
        if document["status"] == "already_set":
            yield f"{what}: {word} already"
        elif document["replayed"]:
            yield f"this request stood already: {what} {word}"
        else:
            yield f"{what}: {word}, {reason}"

    emit(context, document, text)
