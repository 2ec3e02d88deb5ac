"""`callboard cancel`, `pause`, `resume`, `priority` and `rotate-credentials`: a person's own hand.

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
from callboard.surfaces.cli.render import Block, Hint, emit

_WHAT = click.argument("what", type=click.Choice(get_args(Pause)))
_MAX_NAMED = 10


@click.command()
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.option("--claim", metavar="CLAIM", help="Only while this Claim holds the one node.")
@reason_option("not_needed")
@request_option
@board_options
@click.pass_context
def cancel(
    context: click.Context,
    nodes: tuple[str, ...],
    claim: str | None,
    reason: str,
    request_id: str,
) -> None:
    """End nodes for good, all of them or none. What waits for them stays blocked.

    The run of a node that is under way goes on, without effect, and keeps its place until it ends.
    """
    if claim is not None and len(nodes) > 1:
        raise click.UsageError("--claim is for one node.")
    board = board_of(context)
    projection = board.view().with_history().projection
    found = [find_work(projection, node).work.work_id for node in nodes]
    asked = list(dict.fromkeys(found))
    outcome = board.cancel(asked, reason=reason, claim_id=claim, request_id=request_id)
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
        yield Hint(
            f"callboard stop {names.typed(work_id)}",
            "  to end it and all it holds, on the machine that runs it: ",
        )
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


@click.command()
@click.argument("node", metavar="NODE")
@click.argument("number", metavar="1-5", type=click.IntRange(1, 5))
@reason_option("deadline_moved")
@request_option
@board_options
@click.pass_context
def priority(context: click.Context, node: str, number: int, reason: str, request_id: str) -> None:
    """Let a waiting node compete in another class, 1 being the most urgent, from now on.

    Its place within the class and what it has cost stay; what it posts inherits its old priority.
    """
    board = board_of(context)
    projection = board.view().with_history().projection
    work_id = find_work(projection, node).work.work_id
    outcome = board.prefer(work_id, number, reason=reason, request_id=request_id)
    document = {
        "work_id": work_id,
        "priority": number,
        **board.receipt(outcome, request_id=request_id),
    }
    name = Names(projection).label(work_id)
    emit(context, document, lambda: _priority_text(document, name))


def _priority_text(document: dict[str, Any], name: str) -> Iterator[Block]:
    if document["status"] == "already_set":
        yield f"{name}: priority {document['priority']} already"
        return
    stood = "this request stood already: " if document["replayed"] else ""
    yield f"{stood}{name}: priority {document['priority']}, {document['reason']}"


@click.command("rotate-credentials")
@click.argument("generation", metavar="NAME")
@reason_option("rotated")
@request_option
@board_options
@click.pass_context
def rotate_credentials(
    context: click.Context, generation: str, reason: str, request_id: str
) -> None:
    """Record that credentials of the same scope were replaced, under a NAME never used before.

    What was seen of issues and pull requests with the old ones no longer counts.
    """
    board = board_of(context)
    outcome = board.rotate_credentials(generation, reason=reason, request_id=request_id)
    document = {"generation": generation, **board.receipt(outcome, request_id=request_id)}
    emit(context, document, lambda: _rotated_text(document))


def _rotated_text(document: dict[str, Any]) -> Iterator[Block]:
    if document["status"] == "already_set":
        yield f"credentials: generation {document['generation']} already"
        return
    stood = "this request stood already: " if document["replayed"] else ""
    yield f"{stood}credentials: generation {document['generation']}, {document['reason']}"
