"""`callboard ledger …`: the ledger itself, of the board or of a file.

Reading only. A file is a snapshot: it is bounded, read whole and validated like the branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from callboard import canonical
from callboard.board.board import new_request_id
from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.protocol.policy import CEILINGS
from callboard.board.reading import lines, planning
from callboard.board.reading.view import View, prefix
from callboard.board.storage.framing import check_ledger
from callboard.clock import SystemClock
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import board_of, board_options
from callboard.surfaces.cli.endings import NOTHING, REFUSED
from callboard.surfaces.cli.inputs import STANDARD_INPUT, read_input
from callboard.surfaces.cli.render import (
    Block,
    Hint,
    Table,
    bad,
    count,
    emit,
    faint,
    local_time,
    short,
    write_bytes,
)
from callboard.surfaces.cli.schema import schema
from callboard.surfaces.cli.words import basis_text, stop_text

_FILE = click.argument("file", required=False, metavar="[FILE|-]")
_PLAN_FIELDS = (
    "work_id", "node_key", "reason", "observations", "class_pass", "key_pass",
    "operations", "assignments",
)  # fmt: skip


@click.group()
def ledger() -> None:
    """Read the ledger: log, verify, replay, plan, canonical, schema."""


ledger.add_command(schema)


@ledger.command("canonical", short_help="Print JSON in its canonical bytes.")
@_FILE
@board_options
def canonical_(file: str | None) -> None:
    """Print the canonical bytes of any JSON value, and a newline."""
    data = read_input(file or STANDARD_INPUT, what="JSON document")
    value = canonical.decode(data, limit_bytes=canonical.MAX_PARSE_BYTES)
    write_bytes(canonical.encode(value) + b"\n")


def _data(context: click.Context, file: str | None) -> tuple[bytes, str]:
    """The bytes of a ledger, of the file or of the board, and what to call their place."""
    if file is None:
        board = board_of(context)
        return board.ledger_bytes(), f"the ledger on branch {board.site.branch!r}"
    where = "standard input" if file == STANDARD_INPUT else repr(file)
    return read_input(file, what="ledger"), where


def _view(context: click.Context, file: str | None, at_ms: int | None = None) -> View:
    data, where = _data(context, file)
    return _validated(data, where, file, at_ms)


def _validated(data: bytes, where: str, file: str | None, at_ms: int | None = None) -> View:
    check_ledger(data, where)
    history = History.read(data)
    now = max(SystemClock().now_ms(), history.projection.last_at) if at_ms is None else at_ms
    return View(history, now, "live" if file is None else "snapshot")


@ledger.command(short_help="Replay a ledger; --json prints the state.")
@_FILE
@click.option("--at", "commit_id", metavar="COMMIT", help="The state after this queue commit.")
@board_options
@click.pass_context
def replay(context: click.Context, file: str | None, commit_id: str | None) -> None:
    """Replay a ledger and count what its state holds; --json prints the whole state."""
    view = _view(context, file)
    if commit_id is not None:
        view = View(_at(view.history, commit_id), view.at_ms, view.provenance)
    document = state_document(view.projection)
    emit(context, document, lambda: _tally_text(lines.tally(view)))


def _at(history: History, commit_id: str) -> History:
    ordinal = history.projection.commit_ids.get(commit_id)
    if ordinal is None:
        raise CallboardError(
            "commit_unknown",
            f"the ledger has no commit {commit_id[:80]!r}",
            "list them: callboard ledger log",
        )
    return prefix(history, ordinal + 1)


@ledger.command(short_help="Ask the planner who is next at a time.")
@_FILE
@click.option("--pool", required=True, metavar="P", help="The pool that is planned for.")
@click.option(
    "--at-ms",
    type=click.IntRange(0, canonical.MAX_SAFE_INTEGER),
    required=True,
    help="The time that is planned for, in Unix ms.",
)
@click.option(
    "--max-claims", type=click.IntRange(1, 256), help="The most nodes of a batch (default: 1)."
)
@click.option(
    "--max-dispatches", type=click.IntRange(1, 256), help="The most runs of a batch (default: 1)."
)
@click.option(
    "--max-bytes",
    type=click.IntRange(1, CEILINGS.assignment_bytes),
    help="The most bytes an assignment may hold.",
)
@click.option("--request-id", metavar="R", help="The request whose batch is planned.")
@board_options
@click.pass_context
def plan(
    context: click.Context,
    file: str | None,
    pool: str,
    at_ms: int,
    max_claims: int | None,
    max_dispatches: int | None,
    max_bytes: int | None,
    request_id: str | None,
) -> None:
    """Ask the planner who is next at a time; with a batch option, for the whole fair prefix.

    Ends with 3 when nobody is.
    """
    view = _view(context, file, at_ms)
    if (max_claims, max_dispatches, max_bytes, request_id) == (None, None, None, None):
        document = planning.next_document(view, pool)
        found = document["work_id"] is not None
    else:
        document = planning.batch_document(
            view,
            pool,
            max_claims=max_claims or 1,
            max_dispatches=max_dispatches or 1,
            max_bytes=max_bytes or CEILINGS.assignment_bytes,
            request_id=new_request_id() if request_id is None else request_id,
        )
        found = bool(document["operations"])
    answer = {name: value for name, value in document.items() if name in _PLAN_FIELDS}
    emit(context, answer, lambda: _plan_text(document))
    if not found:
        context.exit(NOTHING)


def _plan_text(document: dict[str, Any]) -> Iterator[Block]:
    stop = stop_text(document["reason"], document.get("limit"))
    if "operations" not in document:
        if document["work_id"] is None:
            yield f"nobody: {stop}"
            return
        yield f"{document['node_key']}  ({basis_text(document['basis'])})"
        yield f"class pass {document['class_pass'] or '-'}, key pass {document['key_pass']}"
        return
    for assignment in document["assignments"]:
        members = ", ".join(
            f"{one['handle']} {short(one['work_id'])}" for one in assignment["claims"]
        )
        yield f"{assignment['dispatch_id']}: {members}"
    yield f"then: {stop}"


@ledger.command(short_help="Check a whole ledger, or name its first fault.")
@_FILE
@board_options
@click.pass_context
def verify(context: click.Context, file: str | None) -> None:
    """Replay a whole ledger and count it, or name its first fault and the lines still readable."""
    data, where = _data(context, file)
    try:
        document = lines.tally(_validated(data, where, file))
    except CallboardError as error:
        refused = {
            "error": error.document(),
            "valid": False,
            "diagnosis": lines.diagnose(data),
        }
        emit(context, refused, lambda: _diagnosis_text(refused))
        context.exit(REFUSED)
    emit(context, document, lambda: _tally_text(document))


def _diagnosis_text(refused: dict[str, Any]) -> Iterator[Block]:
    diagnosis = refused["diagnosis"]
    yield bad(refused["error"]["message"])
    yield (
        f"{diagnosis['lines']} lines: {diagnosis['readable_lines']} can be read by themselves, "
        f"{diagnosis['unreadable_lines']} cannot"
    )
    if diagnosis["unjudged_lines"]:
        yield f"the last {diagnosis['unjudged_lines']} were not looked at after so many faults"
    for one in diagnosis["unreadable"]:
        yield f"  line {one['line']}, byte {one['byte']}: {one['cause']}: {one['message']}"
    yield Table(
        ("line", "time", "kind", "operations", "commit"),
        [
            (str(one["line"]), local_time(one["at"]), one["kind"], _kinds(one), one["commit_id"])
            for one in diagnosis["readable"]
        ],
    )
    yield Hint("restore the branch from a good copy; nothing was changed here")


def _tally_text(document: dict[str, Any]) -> Iterator[Block]:
    yield (
        f"valid: {count(document['commits'], 'commit')} in {count(document['lines'], 'line')}, "
        f"{count(document['bytes'], 'byte')}"
    )
    columns = ", ".join(f"{number} {name}" for name, number in document["columns"].items())
    yield f"{count(document['works'], 'node')}: {columns}"
    yield (
        f"{count(document['claims'], 'attempt')}; "
        f"{count(document['unreleased_dispatches'], 'run')} with a place, "
        f"{count(document['pending_deliveries'], 'delivery', 'deliveries')} to verify"
    )
    yield faint(f"tip {short(document['tip'])}, epoch {short(document['policy_epoch'])}")


@ledger.command(short_help="List the commits in causal order.")
@_FILE
@click.option(
    "--limit",
    type=click.IntRange(1, lines.MAX_LISTED),
    default=50,
    show_default=True,
    help="The most commits listed, the latest ones.",
)
@board_options
@click.pass_context
def log(context: click.Context, file: str | None, limit: int) -> None:
    """List the commits in causal order."""
    document = lines.log(_view(context, file), limit=limit)
    emit(context, document, lambda: _log_text(document))


def _log_text(document: dict[str, Any]) -> Iterator[Block]:
    yield Table(
        ("place", "line", "time", "kind", "operations", "by", "commit", "request"),
        [
            (
                str(one["ordinal"]),
                str(one["line"]),
                local_time(one["at"]),
                one["kind"],
                _kinds(one),
                one["role"],
                short(one["commit_id"]),
                one["request_id"],
            )
            for one in document["commits"]
        ],
    )
    more = document["count"] - len(document["commits"])
    if more:
        yield faint(f"{more} earlier ones (--limit)")


def _kinds(one: dict[str, Any]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in one["operations"].items())
