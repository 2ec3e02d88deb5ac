"""`callboard layers dispatch`, `evaluate` and `control`: what agents do for their attempt.

They go by `--assignment` alone, wherever they are called from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from callboard.surfaces.cli.chosen import layers_options
from callboard.surfaces.cli.endings import NOTHING
from callboard.surfaces.cli.layers.place import assignment_option, opened
from callboard.surfaces.cli.layers.words import plain_document
from callboard.surfaces.cli.render import emit


@click.command(short_help="For agents: publish the child request of a selected item.")
@assignment_option(required=True)
@click.argument("item", metavar="ITEM")
@layers_options
@click.pass_context
def dispatch(ctx: click.Context, assignment: str, item: str) -> None:
    """Do a dispatcher's steps for ITEM: snapshot, digest, request, ledger.

    Said again, after a crash or not, it goes on where it was, and publishes nothing twice.
    """
    done = opened(ctx, assignment).dispatch(Path(assignment), item)
    line = f"{done.item_id}: {done.standing} ({done.request_id})"
    emit(ctx, plain_document(done), lambda: [line])


@click.command(short_help="For agents: run the checks of a layer's goal.")
@assignment_option(required=True)
@layers_options
@click.pass_context
def evaluate(ctx: click.Context, assignment: str) -> None:
    """Run all checks in eval_checks and write a receipt. Ends with 3 where one did not pass."""
    from callboard.layers.receipts import ref_of

    receipt = opened(ctx, assignment).evaluate(Path(assignment))
    ref = ref_of(receipt)
    lines = [f"{one.verdict:5} {one.check_id}: {one.detail}" for one in receipt.checks]
    document = {"receipt": plain_document(receipt), "ref": ref}
    emit(ctx, document, lambda: [*lines, f"{receipt.verdict}: {ref}"])
    if receipt.verdict != "pass":
        ctx.exit(NOTHING)


@click.command(short_help="For agents: say that a layer is over.")
@click.argument("word", type=click.Choice(["goal_met", "unresolvable_error", "running"]))
@assignment_option(required=True)
@click.option("--receipt", metavar="REF", help="goal_met: the passing receipt.")
@click.option("--summary", metavar="TEXT", help="What is so, in a sentence or two.")
@click.option(
    "--blocker",
    type=click.Choice(["human_only", "credential", "destructive", "billable"]),
    help="unresolvable_error: what only a person can do.",
)
@click.option(
    "--route",
    "routes",
    nargs=3,
    multiple=True,
    metavar="ROUTE OUTCOME REF",
    help="unresolvable_error: a way that was tried, what came of it, and the evidence. Repeatable.",
)
@layers_options
@click.pass_context
def control(
    ctx: click.Context,
    word: Any,
    assignment: str,
    receipt: str | None,
    summary: str | None,
    blocker: str | None,
    routes: tuple[tuple[str, str, str], ...],
) -> None:
    """Write the control of the attempt under way; it is judged when the attempt is over."""
    from callboard.layers.records.control import AttemptedRoute

    said = opened(ctx, assignment).control(
        Path(assignment),
        None if word == "running" else word,
        eval_receipt_ref=receipt,
        summary=summary,
        blocker=blocker,
        attempted_routes=[
            AttemptedRoute(route=one, outcome=came, evidence_ref=ref or None)
            for one, came, ref in routes
        ],
    )
    emit(ctx, plain_document(said), lambda: [f"{said.control_id}: {word}"])
