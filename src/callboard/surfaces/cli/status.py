"""`callboard status`: the board as a person wants it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from callboard.board.reading.columns import COLUMNS
from callboard.board.reading.overview import overview
from callboard.surfaces.cli.chosen import board_of, board_options
from callboard.surfaces.cli.render import (
    Block,
    Table,
    bad,
    duration,
    emit,
    faint,
    heading,
    local_time,
)

_MAX_LISTED = 16_384


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
    document = overview(board.view(), limit=limit)
    emit(context, document, lambda: _text(document))


def _text(document: dict[str, Any]) -> Iterator[Block]:
    if document["tip"] is None:
        yield "the board is empty"
        yield "next: callboard submit PLAN"
        return
    columns = document["columns"]
    yield heading("   ".join(f"{name} {columns[name]['count']}" for name in COLUMNS))
    yield from _paused(document)
    for name in ("running", "ready", "waiting", "done"):
        yield from _column(name, columns[name], document["evaluated_at_ms"])
    yield from _stuck(columns["stuck"])
    yield from _shares(document)
    yield from _next(document)
    yield ""
    yield faint(
        f"{document['repository']}, {document['provenance']} at "
        f"{local_time(document['evaluated_at_ms'])}, tip {document['tip']}"
    )


def _paused(document: dict[str, Any]) -> Iterator[Block]:
    for what, paused in document["paused"].items():
        if paused:
            yield bad(f"{what} paused: callboard resume {what} --reason CODE")


def _column(name: str, column: dict[str, Any], now_ms: int) -> Iterator[Block]:
    works = column["works"]
    if not works:
        return
    yield ""
    yield heading(name)
    yield Table(
        ("node", "priority", "key", "why", "when"),
        [
            (
                one["name"],
                str(one["priority"]),
                one["fairness_key"] or "-",
                reason_text(one),
                _when(name, one, now_ms),
            )
            for one in works
        ],
    )
    yield from _rest(column)


def _when(name: str, one: dict[str, Any], now_ms: int) -> str:
    if name == "running" and "since_ms" in one:
        return f"for {duration(now_ms - one['since_ms'])}"
    until = one.get("evidence", {}).get("until_ms")
    if until is not None:
        return f"in {duration(until - now_ms + 999)}"
    return local_time(one["since_ms"]) if "since_ms" in one else ""


def _rest(column: dict[str, Any]) -> Iterator[Block]:
    more = column["count"] - len(column["works"])
    if more > 0 and column["works"]:
        yield faint(f"and {more} more (--limit)")


def reason_text(one: dict[str, Any]) -> str:
    """A reason code with what stands behind it."""
    evidence = one.get("evidence", {})
    reason = str(one["reason"])
    if "path" in evidence:
        return f"{reason}: {' <- '.join(evidence['path'])}"
    if "limit" in evidence:
        return f"{reason} ({evidence['limit']} limit)"
    if "found" in evidence:
        return f"{reason}: {evidence['found']}"
    return reason


def _stuck(column: dict[str, Any]) -> Iterator[Block]:
    if not column["count"]:
        return
    yield ""
    yield bad(f"stuck {column['count']}")
    for one in column["works"]:
        yield f"{one['name']}: {reason_text(one)}"
        facts = [
            f"{name} {value}"
            for name, value in one.get("evidence", {}).items()
            if name not in ("path", "found", "limit", "cause")
        ]
        if facts:
            yield f"  found: {', '.join(facts)}"
        if "next" in one:
            yield f"  next: {one['next']}"
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
                keys = [
                    (
                        key["key"] or "(none)",
                        str(key["weight"]),
                        key["due_turns"],
                        str(key["got_turns"]),
                    )
                    for key in one["keys"]
                ]
                yield Table(("key", "weight", "due", "got"), keys)


def _next(document: dict[str, Any]) -> Iterator[Block]:
    for pool in document["next"]:
        if not pool["works"] and pool["reason"] == "no_work":
            continue
        yield ""
        yield heading(f"next in pool {pool['pool']}")
        for number, one in enumerate(pool["works"], start=1):
            yield f"{number}. {one['name']}  ({', '.join(one['basis'])})"
        if pool["reason"] != "selected":
            limit = f" ({pool['limit']} limit)" if "limit" in pool else ""
            yield f"nobody now: {pool['reason']}{limit}"
