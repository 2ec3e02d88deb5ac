"""`callboard layers traces …`: the raw output of attempts, as it was sealed.

A trace is looked at, exported or taken away; nothing that a layer decides depends on one.
"""

from __future__ import annotations

from pathlib import Path

import click

from callboard.surfaces.cli.chosen import layers_options
from callboard.surfaces.cli.endings import NOTHING
from callboard.surfaces.cli.layers.place import opened, session_option
from callboard.surfaces.cli.layers.words import (
    inspection_document,
    inspection_text,
    plain_document,
    traces_text,
)
from callboard.surfaces.cli.render import count, emit

_HOUR_MS = 3_600_000
_WITH_BELOW = "The layer, with all below it (default: all of them)."
_OF_ATTEMPT = "The layer of the attempt (default: the only one with such an attempt)."


@click.group(short_help="List, compare, export and prune the raw output of attempts.")
def traces() -> None:
    """The raw traces of attempts: output, Git before and after, checks, each file with its digest.

    They lie beside the layers, and may be taken away; their seals stay with the layers.
    """


@traces.command("list", short_help="List the traces of attempts.")
@session_option(_WITH_BELOW)
@layers_options
@click.pass_context
def list_(ctx: click.Context, session: str | None) -> None:
    """List traces: open (its attempt runs, or has not ended well), sealed, or pruned."""
    found = opened(ctx).traces(session)
    emit(ctx, {"traces": [plain_document(one) for one in found]}, lambda: traces_text(found))


@traces.command(short_help="Compare a trace with its seal.")
@click.argument("attempt", metavar="ATTEMPT")
@session_option(_OF_ATTEMPT)
@layers_options
@click.pass_context
def inspect(ctx: click.Context, attempt: str, session: str | None) -> None:
    """Compare every byte of a trace with what was sealed. Ends with 3 where something differs."""
    found = opened(ctx).inspect_trace(attempt, session)
    emit(ctx, inspection_document(found), lambda: inspection_text(found))
    if not found.is_sound:
        ctx.exit(NOTHING)


@traces.command(short_help="Write a trace as one archive.")
@click.argument("attempt", metavar="ATTEMPT")
@click.argument("file", metavar="FILE")
@session_option(_OF_ATTEMPT)
@layers_options
@click.pass_context
def export(ctx: click.Context, attempt: str, file: str, session: str | None) -> None:
    """Write a sealed trace to FILE, a .tar.gz that is the same for the same trace.

    No file that is there is replaced, and nothing that differs from the seal is exported.
    """
    target = Path(file).absolute()
    if not target.name or "\0" in file:
        raise click.BadParameter(f"{file!r} names no file", ctx, param_hint="FILE")
    size_bytes = opened(ctx).export_trace(attempt, target, session)
    document = {"attempt_id": attempt, "file": str(target), "size_bytes": size_bytes}
    emit(ctx, document, lambda: [f"{target} has {count(size_bytes, 'byte')}"])


@traces.command(short_help="Take traces of finished attempts away.")
@session_option(_WITH_BELOW)
@click.option(
    "--older-than-hours",
    type=click.IntRange(0, 1_000_000),
    metavar="N",
    help="Only traces that were sealed more than so many hours ago.",
)
@click.option(
    "--keep",
    type=click.IntRange(0, 1_000_000),
    metavar="N",
    help="All but so many, the latest of the chosen layers together.",
)
@layers_options
@click.pass_context
def prune(
    ctx: click.Context, session: str | None, older_than_hours: int | None, keep: int | None
) -> None:
    """Delete raw traces for good; their seals stay. Where both conditions are given, both hold.

    `--keep 0` alone takes all traces of finished attempts away.
    """
    if older_than_hours is None and keep is None:
        raise click.UsageError("Say which: --older-than-hours N, --keep N, or both.", ctx)
    older_than_ms = None if older_than_hours is None else older_than_hours * _HOUR_MS
    pruned = opened(ctx).prune_traces(session, older_than_ms=older_than_ms, keep=keep)
    size_bytes = sum(one.size_bytes or 0 for one in pruned)
    document = {"pruned": [plain_document(one) for one in pruned], "size_bytes": size_bytes}
    said = f"took {count(len(pruned), 'trace')} away, {count(size_bytes, 'byte')}"
    emit(ctx, document, lambda: [said])
