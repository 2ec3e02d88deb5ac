"""`callboard layers status`, `next`, `update`, `stop` and `check`: looking at trees, and a word
from the user to the deepest layer or to the whole tree."""

from __future__ import annotations

import click

from callboard.surfaces.cli.chosen import layers_options
from callboard.surfaces.cli.endings import NOTHING
from callboard.surfaces.cli.inputs import read_text
from callboard.surfaces.cli.layers.place import MAX_TEXT_BYTES, opened, session_option
from callboard.surfaces.cli.layers.words import (
    choice_document,
    choice_text,
    findings_text,
    node_document,
    of_tree,
    plain_document,
    status_text,
)
from callboard.surfaces.cli.render import Hint, count, emit


@click.command(short_help="Show the layers with their phases.")
@session_option("The root layer (default: all of them).")
@layers_options
@click.pass_context
def status(ctx: click.Context, session: str | None) -> None:
    """Show the tree of layers: goal, phase, role at work, and how each ended."""
    nodes = opened(ctx).status(session)
    emit(ctx, {"layers": [node_document(node) for node in nodes]}, lambda: status_text(nodes))
    if not nodes:
        ctx.exit(NOTHING)


@click.command("next", short_help="Say which role goes next, and why.")
@session_option()
@layers_options
@click.pass_context
def next_(ctx: click.Context, session: str | None) -> None:
    """Explain for the deepest layer which role goes next, and why each other one does not.

    Ends with 3 where none does.
    """
    node, choice = opened(ctx).next(session)
    emit(ctx, choice_document(node, choice), lambda: choice_text(node, choice))
    if choice is None or choice.role is None:
        ctx.exit(NOTHING)


@click.command(short_help="Tell the deepest layer something.")
@click.argument("text")
@session_option()
@layers_options
@click.pass_context
def update(ctx: click.Context, text: str, session: str | None) -> None:
    """Add TEXT (- is standard input) to what the next attempt of the deepest layer is given."""
    given = read_text(text, MAX_TEXT_BYTES, "the update") if text == "-" else text
    node, told = opened(ctx).update(given, session)
    session_id = node.layer.session.session_id
    said = f"layer {session_id} was told; it has {count(told, 'update')}"
    emit(ctx, {"session_id": session_id, "updates": told}, lambda: [said])


@click.command(short_help="Ask for the end of a tree.")
@click.option("--reason", metavar="TEXT", required=True, help="Why, for the record.")
@click.option("--now", is_flag=True, help="Stop the agent at work as well.")
@session_option()
@layers_options
@click.pass_context
def stop(ctx: click.Context, reason: str, now: bool, session: str | None) -> None:
    """End a tree for good, from its deepest layer up, once the attempt at work is over.

    With --now that attempt is stopped as at its time limit: asked first, then killed.
    """
    first = opened(ctx).stop(reason, session, at_once=now)
    text = "the tree is asked to end" if first else "it was asked to end before; that reason stays"
    run = Hint(of_tree("callboard layers run", session), lead="it ends with: ")
    emit(ctx, {"asked": first}, lambda: [text, run])


@click.command(short_help="Validate trees: topology, hashes, records.")
@session_option("The root layer (default: all of them).")
@layers_options
@click.pass_context
def check(ctx: click.Context, session: str | None) -> None:
    """Tell everything that is wrong with the trees; nothing is changed. Ends with 3 then."""
    findings = opened(ctx).check(session)
    document = {"findings": [plain_document(one) for one in findings]}
    emit(ctx, document, lambda: findings_text(findings))
    if findings:
        ctx.exit(NOTHING)
