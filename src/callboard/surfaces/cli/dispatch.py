"""`callboard dispatch` and `callboard run`: grants that become runs.

One grant and its launch, or a dispatcher that goes on until it is told to stop. What is granted
is the board's decision; here it is only asked for and told.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from callboard.board.board import Accepted, Board
from callboard.board.projection.entities import BINDING_CONFLICT
from callboard.board.protocol.commit import DispatchNextParameters
from callboard.board.protocol.policy import CEILINGS
from callboard.board.reading.advice import RECONCILE
from callboard.board.reading.overview import overview
from callboard.board.reading.receipts import no_grant
from callboard.board.reading.summary import Subject, subject_of
from callboard.board.reading.summary_markdown import code
from callboard.surfaces.cli.chosen import (
    Chosen,
    Command,
    board_of,
    board_options,
    request_option,
    requests_option,
)
from callboard.surfaces.cli.endings import INTERRUPTED, NOTHING, REFUSED, TERMINATED
from callboard.surfaces.cli.events import EventLines
from callboard.surfaces.cli.render import Block, Hint, bad, count, duration, emit, faint, write_text
from callboard.surfaces.cli.summary import SummaryFile, summary_option
from callboard.surfaces.cli.watch import Watch, watching
from callboard.surfaces.cli.words import reason_text, stop_text

if TYPE_CHECKING:
    from callboard.board.execution.dispatching import DispatchAnswer
    from callboard.board.execution.run_events import RunEvent
    from callboard.board.execution.runner import RunSummary

DEFAULT_WORKERS = 4
MAX_STUCK = 100
MAX_NAMED = 10
_DOUBTS = frozenset({BINDING_CONFLICT, "launch_unresolved", "launch_uncertain"})


def _pool(help_text: str) -> Callable[[Command], Command]:
    return click.option("--pool", metavar="NAME", help=help_text)


_only_workers = click.option(
    "--only",
    metavar="WORKER",
    multiple=True,
    help="Launch this worker only; may be given several times. What needs others waits.",
)


@click.command()
@_pool("The pool that is granted from (default: the one named default, or the only one).")
@click.option(
    "--max-claims",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="The most nodes granted.",
)
@click.option(
    "--max-dispatches",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="The most runs launched.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(1, CEILINGS.assignment_bytes),
    default=CEILINGS.assignment_bytes,
    show_default=True,
    help="The most bytes an assignment may hold.",
)
@_only_workers
@summary_option
@request_option
@board_options
@click.pass_context
def dispatch(
    context: click.Context,
    pool: str | None,
    max_claims: int,
    max_dispatches: int,
    max_bytes: int,
    only: tuple[str, ...],
    summary_file: Path | None,
    request_id: str,
) -> None:
    """Grant the next fair batch and launch its runs.

    Ends with 3 when nothing was granted, or when it is not known whether a run began; with 1 when a
    launch was refused. The grant stands then, and is told all the same.
    """
    board = board_of(context)
    page = SummaryFile(summary_file)
    asked = board.batch(pool, max_claims, max_dispatches, max_bytes, only or None)
    answer = board.dispatch(os.environ, asked, request_id=request_id)
    document = _receipt(board, request_id, asked, answer)
    emit(context, document, lambda: _receipt_text(document))
    if isinstance(answer.outcome, Accepted) and not answer.outcome.replayed:
        subject = Subject((answer.outcome.request,))
        page.append(board, subject, f"Dispatch request {code(request_id)}")
    if answer.troubles:
        context.exit(REFUSED)
    if not isinstance(answer.outcome, Accepted) or document["status"] in _DOUBTS:
        context.exit(NOTHING)


def _receipt(
    board: Board, request_id: str, asked: DispatchNextParameters, answer: DispatchAnswer
) -> dict[str, Any]:
    receipt = board.receipt(answer.outcome, request_id=request_id)
    if not isinstance(answer.outcome, Accepted):
        return no_grant(asked, receipt)
    receipt["launches"] = [
        {"dispatch_id": one.dispatch_id, "status": one.status, "run_id": one.run_id}
        for one in answer.launches
    ]
    receipt["launches"] += [
        {"dispatch_id": dispatch_id, "status": "refused", "run_id": None, "error": error.document()}
        for dispatch_id, error in answer.troubles.items()
    ]
    return receipt


def _receipt_text(document: dict[str, Any]) -> Iterator[Block]:
    limiting = stop_text(document["limiting_reason"], _limit(document))
    if document["grant_status"] == "nothing_granted":
        yield f"nothing granted: {limiting}"
        yield Hint("callboard status")
        return
    got, asked = document["granted_claims"], document["requested_claims"]
    stood = "this request stood already: " if document["replayed"] else ""
    yield (
        f"{stood}granted {got} of {count(asked, 'Claim')} in "
        f"{count(document['reserved_dispatches'], 'run')}; no more: {limiting}"
    )
    names = {claim["claim_ref"]: claim["name"] for claim in document["claims"]}
    for one in document["dispatches"]:
        tasks = ", ".join(names[claim] for claim in one["claim_refs"])
        status = str(one["status"]).removeprefix("launch_")
        yield f"  {status}: {tasks}  (run {one['run_id'] or 'not bound yet'})"
    yield from _troubles(document)
    yield f"request {document['request_id']}"
    yield f"commit  {document['commit_id']}"


def _troubles(document: dict[str, Any]) -> Iterator[Block]:
    """What went wrong or is not known, and what to type for it."""
    for one in document["launches"]:
        if "error" in one:
            yield bad(f"refused: {one['error']['message']}")
            if one["error"].get("hint"):
                yield f"hint: {one['error']['hint']}"
            yield faint(f"code: {one['error']['code']}")
    if document["status"] in _DOUBTS:
        yield bad("it is not known whether every run began; no place is given to others meanwhile")
        yield Hint(RECONCILE)
    elif any(one["status"] == "reserved" for one in document["dispatches"]):
        yield Hint("callboard run", "start what is granted and not launched: ")


def _limit(document: dict[str, Any]) -> str | None:
    found = document.get("limit") or document.get("details", {}).get("limit")
    return None if found is None else str(found)


@click.command()
@_pool("Serve this pool only (default: all pools).")
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=DEFAULT_WORKERS,
    show_default=True,
    help="The most runs at a time.",
)
@click.option("--until-idle", is_flag=True, help="End when nothing is left that could move.")
@click.option("--watch", is_flag=True, help="Show the board while it runs.")
@_only_workers
@summary_option
@requests_option
@board_options
@click.pass_context
def run(
    context: click.Context,
    pool: str | None,
    workers: int,
    until_idle: bool,
    watch: bool,
    only: tuple[str, ...],
    summary_file: Path | None,
    request_id: str | None,
) -> None:
    """Run the board: grant, launch, verify, settle. Ctrl-C stops dispatching; runs go on.

    Ends with 0 also where nodes are stuck: with --json, .stuck.count tells how many.

    With --request-id R the grants are requests R.1, R.2 and so on.
    """
    board = board_of(context)
    board.check_workers(only)
    page = SummaryFile(summary_file)
    chosen = context.ensure_object(Chosen)
    in_json = chosen.json
    if not until_idle and board.history().projection.tip is None:
        waits: list[Block] = [
            "there is no board yet: waiting for a first plan",
            Hint(board.next_step()),
        ]
        write_text(waits, err=True, paste=chosen.pasteable)
    stop = threading.Event()
    lines = EventLines(board)
    with stopping(stop) as signals, contextlib.ExitStack() as stack:
        view: Watch | None = None
        if watch and not in_json:
            view = stack.enter_context(watching(board))

        def on_event(event: RunEvent) -> None:
            line = lines.line(event)
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
            only=only or None,
            request_id=request_id,
        )
    document = _ended(board, summary)
    emit(context, document, lambda: _summary(document, board.next_step))
    done = _done_by(board, summary)
    if done.requests or done.dispatches:
        page.append(board, done, "Run of the board")
    if signals:
        context.exit(TERMINATED if signals[0] == signal.SIGTERM else INTERRUPTED)


def _done_by(board: Board, summary: RunSummary) -> Subject:
    """What a process granted, and what it launched of grants that it met."""
    projection = board.history().projection
    granted = subject_of(projection, summary.requests).requests
    own = set(summary.requests)
    launched = [
        one
        for one in projection.dispatches.values()
        if one.sender is not None
        and one.sender.run_id == summary.sender_run_id
        and one.assignment.request_id not in own
    ]
    return Subject(granted, tuple(launched))


def _ended(board: Board, summary: RunSummary) -> dict[str, Any]:
    view = board.view()
    columns = overview(view, limit=MAX_STUCK)["columns"]
    running = {"count": columns["running"]["count"]}
    return {**view.stamp(), **summary.document(), "stuck": columns["stuck"], "running": running}


def _summary(document: dict[str, Any], next_step: Callable[[], str]) -> Iterator[Block]:
    opening = f"{document['reason']} after {duration(document['duration_ms'])}"
    if document["tip"] is None:
        yield f"{opening}: there is no board yet"
        yield Hint(next_step())
        return
    now_ms, stuck, counts = document["evaluated_at_ms"], document["stuck"], document["counts"]
    found = (
        (counts.get("verified", 0), "done", "done"),
        (counts.get("claim_cancelled", 0), "failed attempt", "failed attempts"),
        (counts.get("delivery_failed", 0), "failed delivery", "failed deliveries"),
        (document["running"]["count"], "running", "running"),
        (stuck["count"], "stuck", "stuck"),
    )
    facts = [count(number, one, many) for number, one, many in found if number]
    yield f"{opening}: {', '.join(facts) or 'nothing happened'}"
    yield from _named(stuck["works"], stuck["count"], "stuck", now_ms)
    left = [one for one in document["left"] if one["column"] != "stuck"]
    yield from _named(left, len(left), "left", now_ms)
    if stuck["count"]:
        yield faint("the exit status is 0 also where nodes are stuck")
    if stuck["count"] or left:
        yield Hint("callboard status")


def _named(works: list[dict[str, Any]], number: int, word: str, now_ms: int) -> Iterator[Block]:
    for one in works[:MAX_NAMED]:
        yield f"  {one['name']} is {word}: {reason_text(one, now_ms)}"
    if number > MAX_NAMED:
        yield f"  and {number - MAX_NAMED} more"


@contextlib.contextmanager
def stopping(stop: threading.Event) -> Iterator[list[int]]:
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
