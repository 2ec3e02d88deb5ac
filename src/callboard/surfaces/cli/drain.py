"""`callboard drain` and `callboard cutover check`: waiting until nothing is in flight, and looking
whether an old revision is at rest.

What is in flight is the board's word; here it is only told, once a change.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from callboard.board.board import Board
from callboard.board.projection.state import Projection
from callboard.board.reading.cutover import cutover as cutover_document
from callboard.board.reading.in_flight import DRAIN, MAX_LEFT, InFlight, in_flight
from callboard.surfaces.cli.chosen import Chosen, board_of, board_options, requests_option
from callboard.surfaces.cli.dispatch import stopping
from callboard.surfaces.cli.endings import INTERRUPTED, NOTHING, TERMINATED
from callboard.surfaces.cli.machine import add_end
from callboard.surfaces.cli.render import Block, Hint, bad, clock, count, emit, faint, write_text
from callboard.surfaces.cli.stamp import place_text, stamp_text
from callboard.surfaces.cli.words import finding_text

if TYPE_CHECKING:
    from callboard.board.execution.drain import Drained

DEFAULT_REASON = "drain"
MAX_TIMEOUT_S = 31 * 24 * 3600
MAX_NAMED = 10
_STAGES = {
    "granted": "granted and not started",
    "started": "started, not bound to a run yet",
    "uncertain": "launch uncertain",
    "unresolved": "launch unresolved",
    "bound": "running",
    "terminal": "its run has ended here, or nobody watches over it",
    "completed_pending": "completed, its delivery pending",
}
_ENDINGS = {
    "resumed": "not drained: somebody resumed grants meanwhile",
    "timeout": "not drained: time is up, the pause stands",
    "stopped": "stopped before it was drained, the pause stands",
    "checked": "not drained",
    "snapshot": "nothing was in flight when the board was last fetched; ask without --offline",
}


@click.command()
@click.option(
    "--reason",
    metavar="CODE",
    help=f"Why grants are paused, as a short code (default: {DEFAULT_REASON}).",
)
@click.option("--admission", is_flag=True, help="Pause the admission of nodes, too.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.IntRange(0, MAX_TIMEOUT_S),
    help="Give up waiting after so long (default: never).",
)
@click.option("--check", is_flag=True, help="Only look: pause nothing and wait for nothing.")
@requests_option
@board_options
@click.pass_context
def drain(
    context: click.Context,
    reason: str | None,
    admission: bool,
    timeout: int | None,
    check: bool,
    request_id: str | None,
) -> None:
    """Pause grants and wait until nothing is in flight: no reservation, no pending delivery.

    It settles what has ended, and starts, stops and frees nothing without proof. The pause stays,
    also after Ctrl-C. Ends with 3 while something is left.

    With --request-id R the pauses are requests R.grants and R.admission.
    """
    board = board_of(context)
    if check:
        if not (reason is None and timeout is None and request_id is None):
            raise click.UsageError("--check changes nothing; of the others only --admission fits.")
        _check(context, board, admission)
        return
    stop = threading.Event()
    teller = _Teller(board, context.ensure_object(Chosen))
    with stopping(stop) as signals:
        found = board.drain(
            os.environ,
            reason=reason or DEFAULT_REASON,
            admission=admission,
            timeout_s=timeout,
            stop=stop,
            on_change=teller.tell,
            request_id=request_id,
        )
    document = _answer(board, found, admission)
    emit(context, document, lambda: _text(document, admission))
    if not document["drained"] and signals:
        context.exit(TERMINATED if signals[0] == signal.SIGTERM else INTERRUPTED)
    if not document["drained"]:
        context.exit(NOTHING)


def _check(context: click.Context, board: Board, admission: bool) -> None:
    view = board.view().with_history()
    document = in_flight(
        view, _located(board, view.projection, InFlight(view).all()), admission=admission
    )
    document |= board.site.place()
    document["handed_back"] = []
    emit(context, document, lambda: _text(document, admission))
    if not document["drained"]:
        context.exit(NOTHING)


def _answer(board: Board, found: Drained, admission: bool) -> dict[str, Any]:
    document = in_flight(
        found.view, _located(board, found.view.projection, found.left), admission=admission
    )
    document |= board.site.place()
    document |= {
        # Also where admission was resumed meanwhile, or the last look met no board.
        "drained": document["drained"] and found.ending == "drained",
        "ending": found.ending,
        "waited_ms": found.waited_ms,
        "handed_back": found.handed_back,
    }
    if found.ending == "drained" and not document["drained"]:
        document["ending"] = "resumed"
    return document if found.trouble is None else {**document, "trouble": found.trouble}


def _located(
    board: Board, projection: Projection, left: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The same, with what this machine knows of each run, as far as any is shown: its folder, and
    that it has ended or is watched by nobody."""
    for one in left[:MAX_LEFT]:
        if one.get("stage") == "bound" and "dispatch_id" in one:
            add_end(board.host, one, projection.dispatches[one["dispatch_id"]])
        folder = None if "run_id" not in one else board.host.run_folder(one["run_id"])
        if folder is not None:
            one["run_folder"] = str(folder)
    return left


class _Teller:
    """Says on standard error what is waited for, each time that it is something else."""

    def __init__(self, board: Board, chosen: Chosen) -> None:
        self._board = board
        self._paste = chosen.pasteable
        self._said: set[str] = set()
        self._handed_back = 0

    def tell(self, found: Drained) -> None:
        now_ms = found.view.at_ms
        write_text(self._lines(found, now_ms), err=True, paste=self._paste)

    def _lines(self, found: Drained, now_ms: int) -> Iterator[Block]:
        for one in found.handed_back[self._handed_back :]:
            yield f"given back: {_names(one)}, granted before the pause and never started"
        self._handed_back = len(found.handed_back)
        if found.trouble is not None:
            yield f"waits: the board cannot be settled now ({found.trouble})"
        lines = [
            _line(one, now_ms) for one in _located(self._board, found.view.projection, found.left)
        ]
        fresh = [
            (line, one)
            for line, one in zip(lines, found.left, strict=True)
            if line not in self._said
        ]
        self._said = set(lines)
        for line, one in fresh[:MAX_NAMED]:
            yield f"waits for {line}"
            if one["next"] != DRAIN:
                yield Hint(one["next"], "  next: ")
        if len(fresh) > MAX_NAMED:
            yield f"and for {len(fresh) - MAX_NAMED} more"
        if not fresh and lines:
            yield f"waits for {len(lines)} more"


def _names(one: dict[str, Any]) -> str:
    more = one["work_count"] - len(one["names"])
    return ", ".join(one["names"]) + (f" and {more} more" if more > 0 else "")


def _line(one: dict[str, Any], now_ms: int) -> str:
    """Node, stage, since when and where, and what a look found if that says more."""
    stage = _STAGES[one["stage"]]
    finding = one.get("finding")
    if finding not in (None, "running", "pending", "grants_paused", f"launch_{one['stage']}"):
        stage += f" ({finding_text(str(finding))})"
    return f"{_names(one)}: {stage}, since {clock(one['since_ms'], now_ms)}{_where(one)}"


def _where(one: dict[str, Any]) -> str:
    if "run_folder" in one:
        return f", {one['run_folder']}"
    if "run_id" in one:
        return f", run {one['run_id']} of another machine"
    if "sender_run_id" in one:
        return f", sent by {one['sender_run_id']} of {one['principal']}"
    return ""


def _text(document: dict[str, Any], admission: bool) -> Iterator[Block]:
    now_ms = document["evaluated_at_ms"]
    if document["drained"]:
        yield "drained: nothing is in flight"
        yield from _pauses(document, now_ms)
        yield Hint("callboard resume grants --reason CODE")
        yield faint(f"{place_text(document)}, {stamp_text(document)}")
        return
    left = f": {document['count']} left in flight" if document["count"] else ""
    yield bad(_ENDINGS[document["ending"]] + left)
    for one in document["left"][:MAX_NAMED]:
        yield f"  {_line(one, now_ms)}"
        yield Hint(one["next"], "    next: ")
    if document["count"] > MAX_NAMED:
        yield f"  and {document['count'] - MAX_NAMED} more"
    if document["unresolved"]:
        yield _unresolved(document["unresolved"], "the drain")
    yield from _pauses(document, now_ms)
    asked = ("grants", "admission") if admission else ("grants",)
    if not all(document["paused"][what] for what in asked):
        yield Hint(DRAIN + " --admission" * admission)
    yield faint(f"{place_text(document)}, {stamp_text(document)}")


def _unresolved(number: int, what: str) -> str:
    kept = "1 unresolved launch keeps" if number == 1 else f"{number} unresolved launches keep"
    return f"{kept} {what} pending: nothing but proof from where it was launched frees such a place"


def _pauses(document: dict[str, Any], now_ms: int) -> Iterator[Block]:
    for what, is_paused in document["paused"].items():
        if not is_paused:
            if what == "grants":
                yield "grants: open"
            continue
        said = document["pauses"].get(what, {})
        why = said.get("reason", "before the checkpoint")
        since = f", since {clock(said['since_ms'], now_ms)}" if "since_ms" in said else ""
        yield f"{what}: paused, {why}{since}"


@click.group()
def cutover() -> None:
    """Look whether an old revision of a campaign is at rest."""


@cutover.command()
@click.option("--graph", metavar="GRAPH", required=True, help="The graph of the campaign.")
@click.option(
    "--old",
    metavar="PREFIX",
    multiple=True,
    help="Keys of old nodes begin so, such as r1/; may be given several times "
    "(default: the whole graph is old).",
)
@board_options
@click.pass_context
def check(context: click.Context, graph: str, old: tuple[str, ...]) -> None:
    """Say whether a strict cutover is complete, and what is in its way. Ends with 3 if it is not.

    Complete is it when admission and grants are paused, every old node has ended, no old run holds
    a place, no old delivery is pending, and no other node waits for an old one that failed.
    """
    if "" in old:
        raise click.UsageError("--old '' means every node; leave it out for that.")
    board = board_of(context)
    view = board.view().with_history()
    document = cutover_document(view, graph, old) | board.site.place()
    _located(board, view.projection, document["violations"])
    emit(context, document, lambda: _cutover_text(document))
    if not document["complete"]:
        context.exit(NOTHING)


def _cutover_text(document: dict[str, Any]) -> Iterator[Block]:
    now_ms, number = document["evaluated_at_ms"], document["count"]
    which = f"graph {document['graph']}"
    if document["old"]:
        which += ", keys " + ", ".join(f"{prefix}*" for prefix in document["old"])
    stages = ", ".join(f"{many} {stage}" for stage, many in document["nodes"]["stages"].items())
    stamp = faint(f"{place_text(document)}, {stamp_text(document)}")
    if document["complete"]:
        yield f"cutover complete: {which}: {stages}"
        yield from _pauses(document, now_ms)
        yield stamp
        return
    if not number:
        yield bad(
            f"cutover pending: {which}: nothing was in its way when the board was last fetched"
        )
        yield f"{count(document['nodes']['count'], 'old node')}: {stages}; ask without --offline"
        yield stamp
        return
    yield bad(f"cutover pending: {which}: {count(number, 'thing')} in its way")
    yield f"{count(document['nodes']['count'], 'old node')}: {stages}"
    for one in document["violations"][:MAX_NAMED]:
        yield f"  {_violation(one, now_ms)}"
        yield Hint(one["next"], "    next: ")
    if number > MAX_NAMED:
        yield f"  and {number - MAX_NAMED} more"
    if document["unresolved"]:
        yield _unresolved(document["unresolved"], "the cutover")
    yield stamp


def _violation(one: dict[str, Any], now_ms: int) -> str:
    kind = one["kind"]
    if kind in ("admission_open", "grants_open"):
        return f"{kind.removesuffix('_open')}: not paused"
    if kind == "node":
        return f"{one['name']}: {_STAGES.get(one['stage'], one['stage'])}"
    if kind == "descendant":
        return f"{one['name']}: waits for {one['cause']}, which will never be verified"
    held = "holds a place, " if kind == "reservation" else ""
    return f"{held}{_line(one, now_ms)}"
