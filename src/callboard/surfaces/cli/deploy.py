"""`callboard deploy`: which commit the board's workers run at from now on.

What it answers is read from the record that stands, never from what was typed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from callboard.surfaces.cli.chosen import (
    board_of,
    board_options,
    reason_option,
    request_option,
)
from callboard.surfaces.cli.render import Block, Table, emit, faint, short


@click.command()
@click.argument("workers", nargs=-1, metavar="[WORKER]...")
@click.option(
    "--at", "revision", metavar="COMMIT", help="Another commit than HEAD, or for the two below."
)
@click.option("--withdraw", is_flag=True, help="Let nothing start at the commit, and stay there.")
@click.option("--restore", is_flag=True, help="Let it start there again.")
@reason_option("new_prompt")
@request_option
@board_options
@click.pass_context
def deploy(
    context: click.Context,
    workers: tuple[str, ...],
    revision: str | None,
    withdraw: bool,
    restore: bool,
    reason: str,
    request_id: str,
) -> None:
    """Let workers run at HEAD's commit from now on, all of them or those named.

    Nodes keep what they were promised: one posted for another contract, or pinned, waits for that.
    What runs already is not touched.
    """
    if withdraw and restore:
        raise click.UsageError("--withdraw and --restore exclude each other.")
    if (withdraw or restore) and not workers:
        raise click.UsageError("Name the workers to withdraw or restore.")
    board = board_of(context)
    if withdraw or restore:
        outcome = board.set_available(
            workers, restore, revision=revision, reason=reason, request_id=request_id
        )
    else:
        outcome = board.deploy(
            workers or None, revision=revision, reason=reason, request_id=request_id
        )
    document = board.receipt(outcome, request_id=request_id)
    document.setdefault("deployments", [])
    emit(context, document, lambda: _text(document))


def _text(document: dict[str, Any]) -> Iterator[Block]:
    if document["status"] == "already_deployed":
        yield "nothing new: the workers are so already, or need a new policy"
        yield faint("callboard policy check tells of each")
        return
    if document["replayed"]:
        yield "this request stood already"
    rows = [
        (
            one["worker_profile"],
            one["pool"],
            short(one["ref"]),
            ("current" if one["activated"] else "as it was")
            + ("" if one["available"] else ", withdrawn"),
        )
        for one in document["deployments"]
    ]
    yield Table(("worker", "pool", "commit", "route"), rows)
