"""`callboard replace`: posts a node in the place of one whose delivery failed.

It says on which proof the replacement rests, and what stays blocked. What it answers is read from
the record that stands.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from callboard.board.board import Board
from callboard.board.publishing.plan_text import MAX_PLAN_BYTES, read_plan_text
from callboard.board.publishing.replacement import Asking, Wish
from callboard.board.publishing.verifier import DISPOSITIONS, Disposition
from callboard.board.reading.columns import Columns
from callboard.board.reading.detail import lineage
from callboard.board.reading.names import find_work
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import board_of, board_options, request_option
from callboard.surfaces.cli.inputs import read_input
from callboard.surfaces.cli.render import Block, Hint, emit, faint
from callboard.surfaces.cli.words import MAX_BLOCKED, blocked_text, kept_back_text, replaces_text

if TYPE_CHECKING:
    from callboard.board.execution.replacing import Replaced


@click.command()
@click.argument("node")
@click.option("--verifier", metavar="NAME", help="The committed verifier that has to prove it.")
@click.option(
    "--disposition",
    type=click.Choice(DISPOSITIONS),
    help="What the proof has to say; typed alone it proves nothing.",
)
@click.option("--key", metavar="KEY", help="The new node's key (default: the old one's and -r2).")
@click.option("--graph", metavar="GRAPH", help="Its graph (default: the old node's).")
@click.option("--payload", metavar="FILE|-", help="Its payload, YAML or JSON (default: the old).")
@click.option(
    "--after",
    metavar="KEY",
    multiple=True,
    help="A node it waits for, in its graph; again for more (default: the old edges).",
)
@request_option
@board_options
@click.pass_context
def replace(
    context: click.Context,
    node: str,
    verifier: str | None,
    disposition: Disposition | None,
    key: str | None,
    graph: str | None,
    payload: str | None,
    after: tuple[str, ...],
    request_id: str,
) -> None:
    """Post a new node in the place of NODE, whose delivery failed.

    Where effects may have happened, a verifier that HEAD's commit registers has to prove that the
    new node repeats no unsafe write. Old edges stay: what waits for NODE stays blocked.
    """
    given = None if payload is None else _payload(payload)
    board = board_of(context)
    old = find_work(board.view().with_history().projection, node)
    wish = Wish(old.work.work_id, graph, key, given, after or None)
    replaced = board.replace(
        dict(os.environ), wish, Asking(verifier, disposition), request_id=request_id
    )
    document = _document(board, old.work.work_id, replaced, request_id)
    emit(context, document, lambda: _text(document))


def _payload(name: str) -> dict[str, Any]:
    value = read_plan_text(read_input(name, limit_bytes=MAX_PLAN_BYTES, what="payload"))
    if not isinstance(value, dict):
        raise CallboardError(
            "plan_invalid",
            f"the payload is {'a list' if isinstance(value, list) else 'no object'}",
            "give one object of names and values, as a node's payload in a plan",
        )
    return value


def _document(board: Board, old_id: str, replaced: Replaced, request_id: str) -> dict[str, Any]:
    """The receipt of the submission, with the lineage of its node and what stays blocked."""
    document = board.receipt(replaced.outcome, request_id=request_id)
    columns = Columns(board.view())
    new = columns.work(document["nodes"][0]["work_ref"])
    document["replaces"] = lineage(columns, new)["replaces"]
    failed = lineage(columns, columns.work(old_id))
    document["blocked"] = failed.get("blocked", [])
    document["blocked_count"] = failed.get("blocked_count", 0)
    if replaced.attestation is not None:
        document["proof"] = replaced.attestation.document()
    if kept := board.kept_back():
        document["kept_back"] = kept
    return document


def _text(document: dict[str, Any]) -> Iterator[Block]:
    (node,) = document["nodes"]
    stood = "this request stood already: " if document["replayed"] else "posted "
    yield f"{stood}{node['name']} ({node['column']})"
    yield f"replaces {replaces_text(document['replaces'])}"
    if document["blocked"]:
        yield f"old edges stay, so these stay blocked: {blocked_text(document)}"
    yield f"request {document['request_id']}"
    yield f"commit  {document['commit_id']}"
    for one in document.get("kept_back", ()):
        yield faint(kept_back_text(one))
    if document["blocked"]:
        names = " ".join(one["typed"] for one in document["blocked"][:MAX_BLOCKED])
        yield Hint(f"callboard cancel {names} --reason replaced", "end those: ")
    yield Hint("callboard run")
