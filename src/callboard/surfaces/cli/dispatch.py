"""`callboard dispatch` and `callboard run`: grants that become runs.

One grant and its launch, or a dispatcher that goes on until it is told to stop. What is granted
is the board's decision; here it is only asked for and told.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from callboard.board.board import Accepted, Board, new_request_id
from callboard.board.protocol.commit import DispatchNextParameters
from callboard.board.protocol.policy import CEILINGS
from callboard.board.reading.overview import overview
from callboard.board.reading.receipts import no_grant
from callboard.surfaces.cli.chosen import (
    NOTHING,
    Chosen,
    board_of,
    board_options,
    request_option,
)
from callboard.surfaces.cli.render import Block, bad, count, emit, local_time, write_text
from callboard.surfaces.cli.status import reason_text
from callboard.surfaces.cli.watch import Watch, watching

if TYPE_CHECKING:
    from callboard.board.execution.runner import DispatchAnswer, RunEvent

INTERRUPTED = 130
TERMINATED = 143
DEFAULT_WORKERS = 4
MAX_STUCK = 100

_pool = click.option("--pool", metavar="NAME", help="The pool (default: the board's only one).")


@click.command()
@_pool
@click.option("--max-claims", type=click.IntRange(1, 256), default=1, show_default=True)
@click.option("--max-dispatches", type=click.IntRange(1, 256), default=1, show_default=True)
@click.option(
    "--max-bytes",
    type=click.IntRange(1, CEILINGS.assignment_bytes),
    default=CEILINGS.assignment_bytes,
    show_default=True,
    help="The most an assignment may hold.",
)
@request_option
@board_options
@click.pass_context
def dispatch(
    context: click.Context,
    pool: str | None,
    max_claims: int,
    max_dispatches: int,
    max_bytes: int,
    request_id: str | None,
) -> None:
    """Grant the next fair batch and launch its runs. Ends with 3 when nothing was granted."""
    board = board_of(context)
    identity = request_id or new_request_id()
    asked = DispatchNextParameters(
        pool=board.pool_name(pool),
        max_claims=max_claims,
        max_dispatches=max_dispatches,
        max_bytes=max_bytes,
    )
    answer = board.dispatch(
        os.environ,
        pool=asked.pool,
        max_claims=max_claims,
        max_dispatches=max_dispatches,
        max_bytes=max_bytes,
        request_id=identity,
    )
    document = _receipt(board, identity, asked, answer)
    emit(context, document, lambda: _receipt_text(document))
    if not isinstance(answer.outcome, Accepted):
        context.exit(NOTHING)


def _receipt(
    board: Board, request_id: str, asked: DispatchNextParameters, answer: DispatchAnswer
) -> dict[str, Any]:
    receipt = board.receipt(answer.outcome, request_id=request_id)
    if not isinstance(answer.outcome, Accepted):
        return no_grant(board.view(), asked, receipt)
    receipt["launches"] = [
        {"dispatch_id": one.dispatch_id, "status": one.status, "run_id": one.run_id}
        for one in answer.launches
    ]
    return receipt


def _receipt_text(document: dict[str, Any]) -> Iterator[Block]:
    if document["grant_status"] == "nothing_granted":
        limit = document["details"].get("limit")
        yield f"nothing granted: {document['limiting_reason']}" + (
            f" ({limit} limit)" if limit else ""
        )
        yield "next: callboard status"
        return
    got, asked = document["granted_claims"], document["requested_claims"]
    yield (
        f"{document['status']}: {got} of {count(asked, 'Claim')} in "
        f"{count(document['reserved_dispatches'], 'run')}, limited by "
        f"{document['limiting_reason']}"
    )
    names = {claim["claim_ref"]: claim["node_key"] for claim in document["claims"]}
    for one in document["dispatches"]:
        tasks = ", ".join(names[claim] for claim in one["claim_refs"])
        yield f"  {one['status']}: {tasks}  (run {one['run_id'] or 'not bound yet'})"
    yield f"request {document['request_id']}"
    yield f"commit  {document['commit_id']}"


@click.command()
@_pool
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=DEFAULT_WORKERS,
    show_default=True,
    help="The most runs at a time.",
)
@click.option("--until-idle", is_flag=True, help="End when nothing is left that could move.")
@click.option("--watch", is_flag=True, help="Show the board while it runs.")
@request_option
@board_options
@click.pass_context
def run(
    context: click.Context,
    pool: str | None,
    workers: int,
    until_idle: bool,
    watch: bool,
    request_id: str | None,
) -> None:
    """Run the board: grant, launch, verify, settle. Ctrl-C stops dispatching; runs go on.

    With --request-id R the grants are requests R.1, R.2 and so on.
    """
    board = board_of(context)
    in_json = context.ensure_object(Chosen).json
    stop = threading.Event()
    with _stopping(stop) as signals, contextlib.ExitStack() as stack:
        view: Watch | None = None
        if watch and not in_json:
            view = stack.enter_context(watching(board))

        def on_event(event: RunEvent) -> None:
            line = event_line(event, board)
            if view is None:
                write_text([line], err=True)
            else:
                view.fact(line)

        summary = board.run(
            os.environ,
            pool=pool,
            workers=workers,
            until_idle=until_idle,
            stop=stop,
            on_event=on_event,
            request_id=request_id,
        )
    view_at_end = board.view()
    stuck = overview(view_at_end, limit=MAX_STUCK)["columns"]["stuck"]
    ended = summary.document()
    document = {**view_at_end.stamp(), **ended, "stuck": stuck, "left": ended["stuck"]}
    emit(context, document, lambda: _summary(document))
    if signals:
        context.exit(TERMINATED if signals[0] == signal.SIGTERM else INTERRUPTED)


def event_line(event: RunEvent, board: Board) -> str:
    """One recorded fact in a line: local time, what, which nodes, why."""
    details = event.details
    subject = details.get("node_key") or _members(board, str(details.get("dispatch_id", "")))
    reason = details.get("reason") or details.get("conclusion")
    line = f"{local_time(event.at_ms)}  {event.kind:<16}  {subject}"
    return f"{line}  ({reason})" if reason else line


def _members(board: Board, dispatch_id: str) -> str:
    projection = board.history().projection
    dispatch = projection.dispatches.get(dispatch_id)
    members = [] if dispatch is None else dispatch.assignment.claims
    return ", ".join(projection.works[one.work_id].work.node_key for one in members)


def _summary(document: dict[str, Any]) -> Iterator[Block]:
    counts = document["counts"]
    facts = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    yield f"{document['reason']}: {facts or 'nothing happened'}"
    stuck = document["stuck"]
    if stuck["count"]:
        yield bad(f"{count(stuck['count'], 'node')} stuck")
        for one in stuck["works"][:10]:
            yield f"  {one['name']}: {reason_text(one)}"
    named = {one["work_id"] for one in stuck["works"]}
    left = [one for one in document["left"] if one["work_id"] not in named]
    if left:
        yield bad(f"{count(len(left), 'node')} left for others to move")
        for one in left[:10]:
            yield f"  {one['node_key']}: {one['reason']}"
    if stuck["count"] or left:
        yield "next: callboard status"


@contextlib.contextmanager
def _stopping(stop: threading.Event) -> Iterator[list[int]]:
    """Let the first Ctrl-C or SIGTERM ask for a stop, and a second Ctrl-C end at once."""
    received: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
