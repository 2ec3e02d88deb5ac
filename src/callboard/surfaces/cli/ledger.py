"""`callboard ledger …`: the ledger itself, of the board or of a file.

Reading only, but for `checkpoint --apply`. A file is a snapshot: it is bounded, read whole and
validated like the branch; what its checkpoints stand for is not looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from callboard import canonical
from callboard.board.board import new_request_id
from callboard.board.ledger.checkpoint import make
from callboard.board.ledger.history import History
from callboard.board.ledger.past import LedgerAt, no_ledger_at
from callboard.board.projection.document import state_document
from callboard.board.protocol.operations import Actor
from callboard.board.protocol.policy import CEILINGS
from callboard.board.reading import lines, planning
from callboard.board.reading.view import Provenance, View
from callboard.board.storage.framing import check_ledger
from callboard.clock import SystemClock
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import board_of, board_options
from callboard.surfaces.cli.endings import NOTHING, REFUSED
from callboard.surfaces.cli.inputs import STANDARD_INPUT, read_input
from callboard.surfaces.cli.render import (
    SHORT_ID,
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
from callboard.validate import parse

_FILE = click.argument("file", required=False, metavar="[FILE|-]")
_PLAN_FIELDS = (
    "work_id", "node_key", "reason", "observations", "class_pass", "key_pass",
    "operations", "assignments",
)  # fmt: skip


@click.group()
def ledger() -> None:
    """The ledger itself: log, verify, replay, plan, canonical, checkpoint, schema."""


ledger.add_command(schema)


@ledger.command("canonical", short_help="Print JSON in its canonical bytes.")
@_FILE
@board_options
def canonical_(file: str | None) -> None:
    """Print the canonical bytes of any JSON value, and a newline."""
    data = read_input(file or STANDARD_INPUT, what="JSON document")
    value = canonical.decode(data, limit_bytes=canonical.MAX_PARSE_BYTES)
    write_bytes(canonical.encode(value) + b"\n")


@dataclass(frozen=True, slots=True)
class _Source:
    """The bytes of a ledger, of a file or of the board, what to call their place, and where the
    ledgers before its checkpoints are found."""

    data: bytes
    where: str
    ledger_at: LedgerAt
    provenance: Provenance

    def view(self, at_ms: int | None = None) -> View:
        """The ledger, validated, at a time or now."""
        check_ledger(self.data, self.where)
        history = History.read(self.data, self.ledger_at)
        last_at = history.projection.last_at
        now_ms = max(SystemClock().now_ms(), last_at) if at_ms is None else at_ms
        return View(history, now_ms, self.provenance)


def _source(context: click.Context, file: str | None) -> _Source:
    if file is None:
        board = board_of(context)
        where = f"the ledger on branch {board.site.branch!r}"
        return _Source(board.ledger_bytes(), where, board.site.store.ledger_at, "live")
    where = "standard input" if file == STANDARD_INPUT else repr(file)
    return _Source(read_input(file, what="ledger"), where, no_ledger_at, "snapshot")


def _view(context: click.Context, file: str | None, at_ms: int | None = None) -> View:
    return _source(context, file).view(at_ms)


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
    known = history.projection.commit_ids
    ordinal = known.get(commit_id)
    if ordinal is None and len(commit_id) >= SHORT_ID:
        # As it is shown in tables, where that is enough to tell it.
        found = [place for name, place in known.items() if name.startswith(commit_id)]
        ordinal = found[0] if len(found) == 1 else None
    if ordinal is None:
        raise CallboardError(
            "commit_unknown",
            f"the ledger has no commit {commit_id[:80]!r}",
            "list them: callboard ledger log",
        )
    return history.prefix(ordinal + 1)


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
    """Replay a whole ledger and count it, or name its first fault and the lines still readable.

    What its checkpoints stand for is replayed too, as far as this clone has it.
    """
    source = _source(context, file)
    try:
        view = source.view()
        document = lines.tally(view)
        if view.history.base:
            document["before_checkpoint"] = lines.behind_checkpoints(view.history)
    except CallboardError as error:
        refused = {
            "error": error.document(),
            "valid": False,
            "diagnosis": lines.diagnose(source.data),
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
    if "before_checkpoint" in document:
        yield from _before_text(document["before_checkpoint"])
    yield faint(f"tip {short(document['tip'])}, epoch {short(document['policy_epoch'])}")


def _before_text(before: dict[str, Any]) -> Iterator[Block]:
    proven = before["commits"] - before["unchecked_commits"]
    yield (
        f"the checkpoint stands for {count(before['commits'], 'commit')} before it: {proven} "
        f"replayed to the same state, {before['unchecked_commits']} not checked"
    )
    if before["unchecked_commits"]:
        where = before.get("unchecked_in")
        place = f"Git commit {where}" if where else "the repository of the board"
        yield Hint(f"the rest is in {place}, which is not at hand; fetch it and verify again")


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
    unavailable = document.get("unavailable", 0)
    if unavailable:
        yield faint(f"{unavailable} before the checkpoint are not in this clone")
    if more > unavailable:
        yield faint(f"{more - unavailable} earlier ones (--limit)")


def _kinds(one: dict[str, Any]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in one["operations"].items())


@ledger.command(short_help="Put one line with the whole state in the place of the log.")
@_FILE
@click.option("--apply", is_flag=True, help="Write it; without this it is only planned.")
@click.option("--print", "prints", is_flag=True, help="Print the line; nothing is written.")
@click.option("--prior-sha", metavar="SHA", help="For --print: the Git commit of the ledger.")
@click.option(
    "--at-ms",
    type=click.IntRange(0, canonical.MAX_SAFE_INTEGER),
    help="For --print: the time of the checkpoint, in Unix ms.",
)
@click.option("--actor", metavar="JSON", help="For --print: who makes it, as a record.")
@board_options
@click.pass_context
def checkpoint(
    context: click.Context,
    file: str | None,
    apply: bool,
    prints: bool,
    prior_sha: str | None,
    at_ms: int | None,
    actor: str | None,
) -> None:
    """Show what a checkpoint would write and gain, and with --apply put it in the place of the log.

    The log stays within reach of the branch. Ends with 4, nothing written, where other writers win
    every race.
    """
    given = (prior_sha, at_ms, actor)
    if prints:
        if apply or prior_sha is None or at_ms is None or actor is None:
            raise click.UsageError("--print needs --prior-sha, --at-ms and --actor, and no --apply")
        _print_checkpoint(_source(context, file), prior_sha, at_ms, actor)
        return
    if file is not None or given != (None, None, None):
        raise click.UsageError("a FILE, --prior-sha, --at-ms and --actor are for --print")
    board = board_of(context)
    document = board.checkpoint() if apply else board.plan_checkpoint()
    emit(context, document, lambda: _checkpoint_text(document))


def _print_checkpoint(source: _Source, prior_sha: str, at_ms: int, actor: str) -> None:
    who = canonical.decode(actor.encode("utf-8", "surrogateescape"))
    history = source.view().history
    made = make(
        history.data,
        history.projection,
        prior_git_sha=prior_sha,
        at=at_ms,
        actor=parse(Actor, who, what="--actor"),
    )
    # What is printed is what a reader takes.
    History.read(made.line)
    write_bytes(made.line)


def _checkpoint_text(document: dict[str, Any]) -> Iterator[Block]:
    before, after = document["before"], document["after"]
    done = "replaced" if document["applied"] else "would replace"
    yield (
        f"one line of {count(after['bytes'], 'byte')} {done} {count(before['commits'], 'commit')} "
        f"of {count(before['bytes'], 'byte')}"
    )
    limit = document["ledger_bytes_limit"]
    used = 100 * after["bytes"] // limit
    yield (
        f"gained {document['gained_bytes']} of the {limit} bytes that the policy allows; "
        f"{used} % in use then"
    )
    yield faint(f"history {short(document['history_sha256'])} in {document['prior_git_sha']}")
    yield faint(f"state {short(document['state_sha256'])}, tip {short(document['prior_tip'])}")
    if not document["applied"]:
        yield Hint("callboard ledger checkpoint --apply")
