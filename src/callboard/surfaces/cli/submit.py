"""`callboard submit`: posts a plan and says what became of its nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from callboard.board.board import Board, Part
from callboard.board.protocol.identities import ROOT_NODE_KEY
from callboard.board.publishing.plan import parse_plan
from callboard.board.publishing.plan_text import MAX_PLAN_BYTES, read_plan_text
from callboard.board.publishing.publisher import Accepted
from callboard.board.reading.receipts import node_documents
from callboard.surfaces.cli.chosen import board_of, board_options, request_option
from callboard.surfaces.cli.inputs import read_input
from callboard.surfaces.cli.render import Block, Hint, count, emit, faint
from callboard.surfaces.cli.words import kept_back_text

MAX_NAMED = 10


@click.command()
@click.argument("file", metavar="FILE|-")
@click.option("--split", is_flag=True, help="Post more than 256 nodes, in several requests.")
@request_option
@board_options
@click.pass_context
def submit(context: click.Context, file: str, split: bool, request_id: str) -> None:
    """Post a plan of tasks, YAML or JSON, from FILE or standard input.

    All of a plan is checked before any of it is written.
    """
    plan = parse_plan(read_plan_text(read_input(file, limit_bytes=MAX_PLAN_BYTES, what="plan")))
    board = board_of(context)
    document = _document(board, request_id, board.submit(plan, request_id=request_id, split=split))
    if kept := board.kept_back():
        document["kept_back"] = kept
    emit(context, document, lambda: _text(document))


def _document(board: Board, request_id: str, parts: list[Part]) -> dict[str, Any]:
    """One answer for all parts: the first one's receipt on top where there is only one."""
    receipts = [board.receipt(part.outcome, request_id=part.request_id) for part in parts]
    for part, receipt in zip(parts, receipts, strict=True):
        if not isinstance(part.outcome, Accepted):
            works = part.outcome.details.get("works")
            names = [str(one) for one in works] if isinstance(works, list) else []
            receipt["nodes"] = node_documents(board.view(), names)
            receipt["details"] = {}
    if len(receipts) == 1:
        return receipts[0]
    statuses = {receipt["status"] for receipt in receipts}
    stamp = {name: receipts[-1][name] for name in ("tip", "evaluated_at_ms", "provenance")}
    return {
        **stamp,
        "request_id": request_id,
        "status": "submitted" if "submitted" in statuses else "already_submitted",
        "replayed": all(receipt["replayed"] for receipt in receipts),
        "nodes": [node for receipt in receipts for node in receipt["nodes"]],
        "parts": [{**receipt, "nodes": len(receipt["nodes"])} for receipt in receipts],
    }


def _text(document: dict[str, Any]) -> Iterator[Block]:
    nodes = document["nodes"]
    graphs = sorted({node["graph_id"] for node in nodes})
    keyed = any(node["node_key"] != ROOT_NODE_KEY for node in nodes) or not all(map(_own, graphs))
    where = f" of graph {graphs[0]}" if len(graphs) == 1 and keyed else ""
    if document["status"] == "already_submitted":
        stand = "stands" if len(nodes) == 1 else "stand"
        yield f"nothing new: {count(len(nodes), 'node')}{where} {stand} on the board already"
    elif document["replayed"]:
        yield f"this request stood already: {count(len(nodes), 'node')}{where}"
    else:
        yield f"posted {count(len(nodes), 'node')}{where}"
    stood = [node for node in nodes if node["stood_before"]]
    if stood and document["status"] != "already_submitted":
        listed = ", ".join(f"{node['name']} ({node['column']})" for node in stood[:MAX_NAMED])
        more = f" and {len(stood) - MAX_NAMED} more" if len(stood) > MAX_NAMED else ""
        yield f"{len(stood)} of them stood already and stay as they are: {listed}{more}"
    columns = Counter(node["column"] for node in nodes)
    order = ("ready", "waiting", "running", "done", "stuck")
    yield ", ".join(f"{columns[column]} {column}" for column in order if columns[column])
    if "parts" in document:
        yield f"request {document['request_id']}, in {count(len(document['parts']), 'part')}"
    elif document["commit_id"]:
        yield f"request {document['request_id']}"
        yield f"commit  {document['commit_id']}"
    for one in document.get("kept_back", ()):
        yield faint(kept_back_text(one))
    yield Hint("callboard run")


def _own(graph_id: str) -> bool:
    """Whether it looks like the graph of a node that was posted without one."""
    return re.fullmatch(r"[0-9a-f]{64}", graph_id) is not None
