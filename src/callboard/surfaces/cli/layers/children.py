"""`callboard layers requests`, `outcomes` and `accept`: child layers, as their parents see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from callboard.surfaces.cli.chosen import layers_options
from callboard.surfaces.cli.layers.place import assignment_option, opened, session_option
from callboard.surfaces.cli.layers.words import outcomes_text, plain_document, requests_text
from callboard.surfaces.cli.render import emit

_TREE = "The root layer (default: all of them)."


@click.command(short_help="List child requests and what was decided.")
@session_option(_TREE)
@layers_options
@click.pass_context
def requests(ctx: click.Context, session: str | None) -> None:
    """List what is pending, what became a child layer, and what was put away with its reason."""
    found = opened(ctx).requests(session)
    emit(ctx, {"requests": [plain_document(one) for one in found]}, lambda: requests_text(found))


@click.command(short_help="List what child layers came to.")
@session_option(_TREE)
@layers_options
@click.pass_context
def outcomes(ctx: click.Context, session: str | None) -> None:
    """List the outcomes of child layers, and what their parents think of them."""
    found = opened(ctx).outcomes(session)
    document = [
        {"outcome": plain_document(one), "acceptance": None if own is None else plain_document(own)}
        for one, own in found
    ]
    emit(ctx, {"outcomes": document}, lambda: outcomes_text(found))


@click.command(short_help="Judge what a child layer came to.")
@click.argument("request_id", metavar="REQUEST")
@click.argument("decision", type=click.Choice(["accepted", "rework", "reroute", "blocked"]))
@click.option("--rationale", required=True, metavar="TEXT", help="Why.")
@click.option("--evidence", multiple=True, metavar="REF", help="What was reviewed. Repeatable.")
@click.option("--open-point", multiple=True, metavar="TEXT", help="What is left. Repeatable.")
@click.option("--superseding", metavar="REQUEST", help="The request that takes its place.")
@assignment_option(required=False)
@session_option("The layer that asked for the child (default: the only one that did).")
@layers_options
@click.pass_context
def accept(
    ctx: click.Context,
    request_id: str,
    decision: Any,
    rationale: str,
    evidence: tuple[str, ...],
    open_point: tuple[str, ...],
    superseding: str | None,
    assignment: str | None,
    session: str | None,
) -> None:
    """Record the parent's judgement of an outcome, once; without --assignment it is yours."""
    judged = opened(ctx, assignment).accept(
        request_id,
        decision,
        rationale,
        evidence,
        session_id=session,
        assignment=None if assignment is None else Path(assignment),
        superseding_request_id=superseding,
        open_points=open_point,
    )
    emit(ctx, plain_document(judged), lambda: [f"{judged.request_id} is judged: {judged.decision}"])
