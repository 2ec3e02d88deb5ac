"""`callboard agent …`: agents that propose and request, and hold no Claim.

`run` starts one with what it may know and answers what it staged; inside, `submit` and
`dispatch-next` only stage. What comes of a request is the board's to decide.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from callboard import canonical
from callboard.board.outputs.messages import BODY_LIMITS
from callboard.board.protocol.agent_roles import UNASSIGNED
from callboard.board.reading.summary import subject_of
from callboard.board.reading.summary_markdown import code
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen, board_of, board_options, boardless_options
from callboard.surfaces.cli.endings import REFUSED
from callboard.surfaces.cli.inputs import read_input
from callboard.surfaces.cli.render import Block, Hint, bad, count, emit, faint
from callboard.surfaces.cli.standing_in import end_like, run_command
from callboard.surfaces.cli.summary import SummaryFile, summary_option

if TYPE_CHECKING:
    from callboard.board.agents import Activation
    from callboard.board.outputs.agent_staging import AgentStager
    from callboard.board.protocol.agent_roles import AgentRole


@click.group()
def agent() -> None:
    """Start agents that post work or ask for batches, and answer what they staged."""


@agent.command(
    "run",
    short_help="Start an agent, then answer what it staged.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--role", type=click.Choice(UNASSIGNED), required=True, help="What it may ask for.")
@click.option("--pool", metavar="NAME", help="The only pool that it may ask for batches of.")
@click.option(
    "--max-dispatches", type=click.IntRange(0, 256), default=1, help="Launches in all (1)."
)
@click.option("--max-claims", type=click.IntRange(0, 4096), default=16, help="Turns in all (16).")
@summary_option
@board_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def run(
    context: click.Context,
    role: str,
    pool: str | None,
    max_dispatches: int,
    max_claims: int,
    summary_file: Path | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND as an agent with the board's tools, then publish what it staged.

    The agent sees the board as it was when it started. Nothing that it stages counts before it has
    ended. The exit status is the command's own; where that is 0, 1 if anything was refused.
    """
    from callboard.board.agents import activate, holding
    from callboard.board.outputs.context import AgentTerms

    page = SummaryFile(summary_file)
    board = board_of(context)
    terms = AgentTerms(max_dispatches=max_dispatches, max_claims=max_claims, pool=pool)
    activation = activate(board, cast("AgentRole", role), terms)
    as_json = context.ensure_object(Chosen).json
    stdout = sys.stderr.fileno() if as_json else None
    sys.stdout.flush()
    with holding(activation) as held:
        variables = activation.variables(os.environ)
        # What the agent starts holds the activation too, for as long as it may stage something.
        status = run_command(command, variables, stdout=stdout, keep=[held])
        document = {
            "activation": activation.id,
            "role": role,
            "exit_status": status,
            **_settled(context, activation),
        }
    emit(context, document, lambda: _text(document))
    stand = [
        one["request_id"]
        for one in document["intents"]
        if one["status"] == "accepted" and not one["replayed"]
    ]
    if stand:
        subject = subject_of(board.history().projection, stand)
        page.append(board, subject, f"Agent {code(activation.id)}")
    if status != 0:
        end_like(context, status)
    if document["refused"]:
        context.exit(REFUSED)


@agent.command("settle", short_help="Answer what agents staged whose start was cut short.")
@click.argument("activation", required=False)
@board_options
@click.pass_context
def settle(context: click.Context, activation: str | None) -> None:
    """Publish what an agent staged, of ACTIVATION or of all that are open on this board.

    For when `callboard agent run` ended before it could. Whatever was answered stays as it is.
    """
    from callboard.board.agents import activation_of, holding, unsettled

    board = board_of(context)
    damaged: list[str] = []
    if activation is None:
        found, damaged = unsettled(board)
    else:
        found = [activation_of(board, activation)]
    documents: list[dict[str, Any]] = []
    running: list[str] = []
    for one in found:
        try:
            with holding(one):
                document = {"activation": one.id, "role": one.role, **_settled(context, one)}
        except CallboardError as error:
            if error.code != "activation_running" or activation is not None:
                raise
            running.append(one.id)
            continue
        documents.append(document)
    emit(
        context,
        {"activations": documents, "running": running, "damaged": damaged},
        lambda: _all_text(documents, len(running), damaged),
    )
    if damaged or any(one["refused"] for one in documents):
        context.exit(REFUSED)


@agent.command("submit", short_help="Inside an agent: stage a plan.")
@click.argument("file", metavar="FILE|-")
@boardless_options
@click.pass_context
def submit(context: click.Context, file: str) -> None:
    """Stage a plan, YAML or JSON, to be posted when the agent is over."""
    from callboard.board.publishing.plan_text import read_plan_text

    data = read_input(file, limit_bytes=BODY_LIMITS["submit"], what="plan")
    plan = canonical.encode(read_plan_text(data))
    receipt = _stager().submit(plan)
    emit(context, receipt.document(), f"staged: plan, {receipt.intent_id}")


@agent.command("dispatch-next", short_help="Inside an agent: stage a request for a batch.")
@click.option("--max-claims", type=click.IntRange(1, 256), default=1, help="At most so many turns.")
@click.option(
    "--max-dispatches", type=click.IntRange(1, 256), default=1, help="At most so many runs."
)
@click.option("--pool", metavar="NAME", help="The pool.")
@boardless_options
@click.pass_context
def dispatch_next(
    context: click.Context, max_claims: int, max_dispatches: int, pool: str | None
) -> None:
    """Stage the request for the next fair batch, to be granted when the agent is over."""
    receipt = _stager().dispatch_next(max_claims, max_dispatches, pool)
    emit(context, receipt.document(), f"staged: request for a batch, {receipt.intent_id}")


def _settled(context: click.Context, activation: Activation) -> dict[str, Any]:
    from callboard.board.agents import settle as settle_activation

    board = board_of(context)
    try:
        found = settle_activation(board, os.environ, activation)
    except CallboardError as error:
        error.hint = (
            f"{error.hint}; what was staged is kept: callboard agent settle {activation.id}"
        )
        raise
    return {**board.view().stamp(), **found.document(), "refused": found.is_refused}


def _all_text(documents: list[dict[str, Any]], running: int, damaged: list[str]) -> Iterator[Block]:
    for identity in damaged:
        yield bad(f"the record of activation {identity} cannot be read, so nothing of it is known")
    if running:
        yield f"{count(running, 'agent')} still at work"
    if not documents:
        yield "no agent of this board is waiting for an answer"
    for document in documents:
        yield from _text(document)


def _text(document: dict[str, Any]) -> Iterator[Block]:
    intents, refusals = document["intents"], document["refusals"]
    yield f"agent {document['activation']} ({document['role']}): " + (
        f"{count(len(intents), 'request')} staged" if intents else "nothing was asked"
    )
    for one in intents:
        again = ", as before" if one["replayed"] else ""
        yield f"  {one['kind']} {one['intent_id']}: {_word(one)}{again}"
        if one["status"] == "refused":
            yield faint(f"    {one['error']['hint']}")
    for one in refusals:
        yield f"  {one['source']} was not taken: {one['message']} ({one['code']})"
    if any(one["status"] == "accepted" for one in intents):
        yield Hint("callboard status")


def _word(intent: dict[str, Any]) -> str:
    if intent["status"] == "refused":
        error = intent["error"]
        return f"refused: {error['message']} ({error['code']})"
    if intent["status"] == "nothing":
        return f"nothing was written: {intent['reason']}"
    receipt = intent["receipt"]
    if intent["kind"] == "submit":
        return f"posted {count(len(receipt['nodes']), 'node')}"
    return f"granted {count(receipt['granted_claims'], 'turn')}, request {intent['request_id']}"


def _stager() -> AgentStager:
    from callboard.board.execution.intent_checks import INTENT_CHECKS
    from callboard.board.outputs.agent_staging import AgentStager
    from callboard.board.outputs.context import CONTEXT_VARIABLE, read_context

    named = os.environ.get(CONTEXT_VARIABLE)
    if not named:
        raise CallboardError(
            "not_in_an_agent",
            f"{CONTEXT_VARIABLE} is not set, so this is no agent of a board",
            "start it with callboard agent run; without an agent: callboard submit, callboard "
            "dispatch",
            {"variable": CONTEXT_VARIABLE},
        )
    found = read_context(Path(named))
    if found.terms is None or found.staging is None:
        raise CallboardError(
            "role_forbidden",
            f"this agent has the role {found.role}, which stages nothing here",
            "inside a run use callboard worker; an observer only looks",
            {"role": found.role},
        )
    return AgentStager(Path(found.staging), found.role, found.terms, INTENT_CHECKS)
