"""`callboard status`: the board as a person wants it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from callboard.board.reading.columns import COLUMNS
from callboard.board.reading.overview import overview
from callboard.surfaces.cli.chosen import board_of, board_options
from callboard.surfaces.cli.machine import add_to_work
from callboard.surfaces.cli.render import (
    Block,
    Hint,
    Table,
    bad,
    clock,
    duration,
    emit,
    faint,
    heading,
)
from callboard.surfaces.cli.stage_words import evidence_text, name_text
from callboard.surfaces.cli.stamp import present_ms, stamp_text
from callboard.surfaces.cli.words import (
    SHARE_HEADERS,
    basis_text,
    reason_text,
    share_row,
    stop_text,
)

_MAX_LISTED = 16_384
_AHEAD_MS = 5_000


@click.command()
@click.option(
    "--limit",
    type=click.IntRange(0, _MAX_LISTED),
    default=10,
    show_default=True,
    help="The most nodes listed of each column.",
)
@board_options
@click.pass_context
def status(context: click.Context, limit: int) -> None:
    """Show the board: columns, shares due and got, who is next, what is stuck."""
    board = board_of(context)
    view = board.view()
    document = {**overview(view, limit=limit), **board.site.place()}
    for column in ("running", "stuck"):
        for one in document["columns"][column]["works"]:
            add_to_work(board.host, view.projection, one)
    emit(context, document, lambda: _text(document, board.next_step))


def _text(document: dict[str, Any], next_step: Callable[[], str]) -> Iterator[Block]:
    if document["tip"] is None:
        yield "the board is empty"
        yield Hint(next_step())
        return
    columns, now_ms = document["columns"], present_ms(document)
    yield heading("   ".join(f"{name} {columns[name]['count']}" for name in COLUMNS))
    yield from _ahead(document)
    yield from _paused(document)
    yield from _places(document["pools"])
    yield from _stuck(columns["stuck"], now_ms)
    for name in ("running", "ready", "waiting", "done"):
        yield from _column(name, columns[name], now_ms)
    yield from _shares(document)
    yield from _next(document)
    yield ""
    yield faint(f"{document['repository']}, {_place(document)}, {stamp_text(document)}")


def _place(document: dict[str, Any]) -> str:
    """Where the board is, and of a snapshot how old that is."""
    place = f"branch {document['branch']}"
    if "remote" in document:
        place += f" of the remote {document['remote']}"
    if document["provenance"] == "snapshot":
        place += f" as fetched {clock(document.get('fetched_at_ms'), document['evaluated_at_ms'])}"
    return place


def _ahead(document: dict[str, Any]) -> Iterator[Block]:
    """Tell where another machine's fast clock holds up what waits for a time (wire-v3 §6)."""
    ahead_ms = document["evaluated_at_ms"] - present_ms(document)
    if ahead_ms >= _AHEAD_MS:
        yield bad(
            f"the board's time is {duration(ahead_ms)} ahead of this machine's: a writer's clock "
            "was fast, and until then nothing that waits for a time comes due"
        )
        yield Hint("compare the clocks of the machines that write to this board")


def _paused(document: dict[str, Any]) -> Iterator[Block]:
    now_ms = document["evaluated_at_ms"]
    for what, paused in document["paused"].items():
        if paused:
            said = document["pauses"].get(what, {})
            if "before_checkpoint" in said:
                yield bad(f"{what} paused, since before the checkpoint")
            else:
                since = clock(said.get("since_ms"), now_ms)
                yield bad(f"{what} paused: {said.get('reason', 'unknown')}, since {since}")
            yield Hint(f"callboard resume {what} --reason CODE")


def _places(pools: list[dict[str, Any]]) -> Iterator[Block]:
    for pool in pools:
        name = "" if len(pools) == 1 else f" in pool {pool['pool']}"
        yield (
            f"places taken{name}: {pool['unreleased_dispatches']} of {pool['native_limit']} for "
            f"runs, {pool['open_claims']} of {pool['logical_limit']} for Claims"
        )


def _column(name: str, column: dict[str, Any], now_ms: int) -> Iterator[Block]:
    works = column["works"]
    if not works:
        return
    yield ""
    yield heading(f"{name} {column['count']}")
    yield Table(
        ("node", "priority", "key", "why", "when"),
        [
            (
                name_text(one["name"]),
                str(one["priority"]),
                one["fairness_key"] or "-",
                reason_text(one, now_ms),
                _when(name, one, now_ms),
            )
            for one in works
        ],
    )
    yield from _rest(column)
    for step in dict.fromkeys(one["next"] for one in works if "next" in one):
        yield Hint(step)


def _when(name: str, one: dict[str, Any], now_ms: int) -> str:
    if name == "running" and "since_ms" in one:
        return f"for {duration(now_ms - one['since_ms'])}"
    return clock(one["since_ms"], now_ms) if "since_ms" in one else ""


def _rest(column: dict[str, Any]) -> Iterator[Block]:
    more = column["count"] - len(column["works"])
    if more > 0 and column["works"]:
        yield faint(f"and {more} more (--limit)")


def _stuck(column: dict[str, Any], now_ms: int) -> Iterator[Block]:
    if not column["works"]:
        return
    yield ""
    yield bad(f"stuck {column['count']}")
    for one in column["works"]:
        yield f"{name_text(one['name'])}: {reason_text(one, now_ms)}"
        if evidence := evidence_text(one, now_ms):
            yield faint(f"  {evidence}")
        if "next" in one:
            yield Hint(one["next"], "  next: ")
    yield from _rest(column)


def _shares(document: dict[str, Any]) -> Iterator[Block]:
    for pool in document["shares"]:
        classes = pool["classes"]
        if len(classes) > 1:
            yield ""
            yield heading(f"turns by priority, pool {pool['pool']}")
            rows = [
                (
                    str(one["priority"]),
                    str(one.get("weight", "-")),
                    one.get("due_turns", "most urgent first"),
                    str(one["got_turns"]),
                )
                for one in classes
            ]
            yield Table(("priority", "weight", "due", "got"), rows)
        for one in classes:
            if len(one["keys"]) > 1:
                yield ""
                yield heading(f"turns by key, priority {one['priority']}, pool {pool['pool']}")
                yield Table(SHARE_HEADERS, [share_row(key) for key in one["keys"]])


def _next(document: dict[str, Any]) -> Iterator[Block]:
    for pool in document["next"]:
        if not pool["works"] and pool["reason"] == "no_work":
            continue
        yield ""
        yield heading(f"next in pool {pool['pool']}")
        for number, one in enumerate(pool["works"], start=1):
            yield f"{number}. {name_text(one['name'])}  ({basis_text(one['basis'])})"
        if pool["reason"] != "selected":
            yield f"nobody now: {stop_text(pool['reason'], pool.get('limit'))}"
