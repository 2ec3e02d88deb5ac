"""`callboard worker …`: what a worker says from inside its run.

Each command only stages a wish in the run's private folder; what comes of it is decided when the
run is over. None of them opens a repository's ledger or needs a credential.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import get_args

import click
import msgspec

from callboard import canonical
from callboard.board.outputs.closed import NONE_CLOSED, ClosedClaims, read_closed
from callboard.board.outputs.messages import BODY_LIMITS, Outcome
from callboard.board.outputs.scope import SELECTOR, resolve
from callboard.board.outputs.staging import Receipt, Stager, read_assignment
from callboard.board.outputs.worktree import looks_unchanged
from callboard.board.protocol.commit import Assignment
from callboard.errors import CallboardError
from callboard.regular import shown_name
from callboard.surfaces.cli.chosen import Chosen, board_options
from callboard.surfaces.cli.inputs import STANDARD_INPUT, read_input
from callboard.surfaces.cli.render import emit
from callboard.surfaces.cli.standing_in import end_like, run_command

ASSIGNMENT_VARIABLE = "CALLBOARD_ASSIGNMENT"
STAGING_VARIABLE = "CALLBOARD_STAGING"
CLAIMS_VARIABLE = "CALLBOARD_CLAIMS"

_claim = click.option(
    "--claim", metavar="HANDLE", help="The claim meant; needed where the run has several."
)


@click.group()
def worker() -> None:
    """Speak from inside a run: read the assignment, stage its outputs and its end."""


@worker.command(short_help="Print what this run is asked to do.")
@_claim
@click.option(
    "--open", "only_open", is_flag=True, help="Without claims that ended before it began."
)
@board_options
@click.pass_context
def assignment(ctx: click.Context, claim: str | None, only_open: bool) -> None:
    """Print what this run is asked to do: all of it, or one claim.

    Claims that had ended before the run began are named on standard error.
    """
    if only_open and claim is not None:
        raise click.UsageError("Give one of --claim and --open, not both.")
    found = _assignment()
    closed = _closed() if only_open else _closed_quietly()
    if only_open:
        found = msgspec.structs.replace(found, claims=closed.open_members(found))
    part = found if claim is None else resolve(found, {SELECTOR: claim})
    document = msgspec.to_builtins(part)
    emit(ctx, document, msgspec.json.format(msgspec.json.encode(part), indent=2).decode())
    for one in closed.closed:
        if claim in (None, one.handle):
            click.echo(one.text(), err=True)


@worker.command(short_help="Say how a claim ended.")
@click.argument("outcome", type=click.Choice(get_args(Outcome)))
@_claim
@board_options
@click.pass_context
def finish(ctx: click.Context, outcome: Outcome, claim: str | None) -> None:
    """Say how a claim ended. Without a finish it counts as cancelled."""
    receipt = _stager().finish(outcome, claim)
    _emit_receipt(ctx, receipt, outcome)


@worker.command(short_help="Deliver a file.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="Deliver it under this name instead of its own.")
@_claim
@board_options
@click.pass_context
def artifact(ctx: click.Context, file: Path, name: str | None, claim: str | None) -> None:
    """Deliver a file, as it is now."""
    receipt = _stager().artifact(file, name, claim)
    _emit_receipt(ctx, receipt, f"artifact {shown_name(name or file.name)}")


@worker.command(short_help="Deliver the work tree's changes.")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@_claim
@board_options
@click.pass_context
def patch(ctx: click.Context, paths: tuple[str, ...], claim: str | None) -> None:
    """Deliver the work tree's changes, as the run leaves them, as a commit on a branch.

    With PATHs, from the top of the work tree, only what lies at or below them. A run with several
    claims shares its work tree among them, so there each patch names its own.
    """
    is_empty = partial(looks_unchanged, Path(), os.environ, paths)
    receipt = _stager().patch(claim, paths=paths, is_empty=is_empty)
    _emit_receipt(ctx, receipt, "patch")


@worker.command(short_help="Comment on the node.")
@click.argument("text")
@_claim
@board_options
@click.pass_context
def note(ctx: click.Context, text: str, claim: str | None) -> None:
    """Comment on the claim's node; with - the text is read from standard input."""
    said = text
    if text == STANDARD_INPUT:
        data = read_input(text, limit_bytes=BODY_LIMITS["note"], what="note")
        said = data.decode("utf-8", "surrogateescape")
    _emit_receipt(ctx, _stager().note(said, claim), "note")


@worker.command(short_help="Remember something for later runs.")
@click.argument("file", metavar="FILE|-")
@_claim
@board_options
@click.pass_context
def memory(ctx: click.Context, file: str, claim: str | None) -> None:
    """Remember a JSON object, of the shape that the recipe's schema has; at most one a claim.

    Once the claim is completed it is the declared file in a commit on a branch of its own.
    """
    data = read_input(file, limit_bytes=BODY_LIMITS["memory"], what="memory")
    _emit_receipt(ctx, _stager().memory(data, claim), "memory")


@worker.command(short_help="Post a plan once the claim is completed.")
@click.argument("file", metavar="FILE|-")
@_claim
@board_options
@click.pass_context
def submit(ctx: click.Context, file: str, claim: str | None) -> None:
    """Post a plan, YAML or JSON, in the claim's name once it is completed.

    Its nodes inherit the claim's pool, priority and fairness key.
    """
    from callboard.board.publishing.plan_text import read_plan_text

    limit = BODY_LIMITS["submit"]
    plan = read_plan_text(read_input(file, limit_bytes=limit, what="plan"))
    _emit_receipt(ctx, _stager().submit(canonical.encode(plan), claim), "plan")


@worker.command("dispatch-next", short_help="Ask for the next fair batch.")
@click.option("--max-claims", type=click.IntRange(1, 256), default=1, help="At most so many turns.")
@click.option(
    "--max-dispatches", type=click.IntRange(1, 256), default=1, help="At most so many runs."
)
@_claim
@board_options
@click.pass_context
def dispatch_next(
    ctx: click.Context, max_claims: int, max_dispatches: int, claim: str | None
) -> None:
    """Ask for the next fair batch of the run's pool once the claim is completed."""
    receipt = _stager().dispatch_next(max_claims, max_dispatches, selector=claim)
    _emit_receipt(ctx, receipt, "request for a batch")


@worker.command(short_help="Say that there was nothing to do.")
@click.argument("reason")
@_claim
@board_options
@click.pass_context
def noop(ctx: click.Context, reason: str, claim: str | None) -> None:
    """Say that there was nothing to do, and why; the claim is to be finished all the same."""
    _emit_receipt(ctx, _stager().noop(reason, claim), "no-op")


@worker.command(short_help="Deliver an output of a project's own type.")
@click.argument("output_type", metavar="TYPE")
@click.argument("file", metavar="FILE|-")
@_claim
@board_options
@click.pass_context
def output(ctx: click.Context, output_type: str, file: str, claim: str | None) -> None:
    """Deliver an output of a project's own type; FILE holds its JSON object."""
    data = read_input(file, limit_bytes=BODY_LIMITS["output"], what="output")
    _emit_receipt(ctx, _stager().own(output_type, data, claim), f"output {shown_name(output_type)}")


@worker.command(
    "exec",
    short_help="Run a command and stage its end.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@_claim
@board_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def exec_(ctx: click.Context, claim: str | None, command: tuple[str, ...]) -> None:
    """Run COMMAND and stage its end: completed where it exits with 0, else cancelled.

    The exit status is the command's own. A finish that the command staged itself stands. With
    --json the command's standard output goes to standard error.
    """
    stager = _stager()
    member = stager.check_finish(claim)
    _warn_of_closed(member.handle)
    as_json = ctx.ensure_object(Chosen).json
    stdout = sys.stderr.fileno() if as_json else None
    try:
        status = run_command(command, os.environ, stdout=stdout)
    except CallboardError:
        _stage_end(stager, "cancelled", claim)
        raise
    receipt, outcome = _stage_end(stager, "completed" if status == 0 else "cancelled", claim)
    if as_json:
        document: dict[str, object] = {} if receipt is None else receipt.document()
        document |= {"claim_handle": member.handle, "outcome": outcome, "exit_status": status}
        emit(ctx, document, "")
    end_like(ctx, status)


def _stage_end(
    stager: Stager, outcome: Outcome, claim: str | None
) -> tuple[Receipt | None, Outcome]:
    """Stage the outcome, unless the command did so itself; answers the one that stands."""
    try:
        earlier = stager.finished(claim)
        if earlier is not None and earlier != outcome:
            click.echo(f"the command itself has finished the claim as {earlier}", err=True)
            return None, earlier
        return stager.finish(outcome, claim), outcome
    except CallboardError as error:
        if outcome == "completed":
            raise
        # Without a finish the claim is cancelled all the same, so the command's end counts more.
        click.echo(f"the cancellation could not be staged: {error}", err=True)
        return None, outcome


def _emit_receipt(ctx: click.Context, receipt: Receipt, what: str) -> None:
    emit(ctx, receipt.document(), f"staged for {receipt.handle}: {what}")
    _warn_of_closed(receipt.handle)


def _warn_of_closed(handle: str) -> None:
    """Say where a wish cannot come true; it is staged all the same, and judged at the end."""
    closed = _closed_quietly().of(handle)
    if closed is not None:
        click.echo(f"{closed.text()}; nothing staged for it has an effect", err=True)


def _stager() -> Stager:
    # Only what stages needs to know plans.
    from callboard.board.execution.intent_checks import INTENT_CHECKS

    return Stager(_path(STAGING_VARIABLE), _assignment(), INTENT_CHECKS)


def _assignment() -> Assignment:
    return read_assignment(_path(ASSIGNMENT_VARIABLE))


def _closed() -> ClosedClaims:
    """The claims that had ended before the run began; none where its host named no file of them."""
    value = os.environ.get(CLAIMS_VARIABLE)
    return read_closed(Path(value)) if value else NONE_CLOSED


def _closed_quietly() -> ClosedClaims:
    """The same for who only wants to mention them: a list that cannot be read keeps nobody."""
    try:
        return _closed()
    except CallboardError as error:
        click.echo(f"it cannot be told which claims had ended before: {error}", err=True)
        return NONE_CLOSED


def _path(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        raise CallboardError(
            "not_in_a_run",
            f"{variable} is not set, so this is no run of a worker",
            "these commands work inside a run only: name them in a recipe's command, then use "
            "callboard run",
            {"variable": variable},
        )
    return Path(value)
