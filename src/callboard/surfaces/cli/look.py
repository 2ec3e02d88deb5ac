"""`callboard show`, `explain` and `trace`: one thing in full, why, and how it came to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from callboard.board.reading import tracing
from callboard.board.reading.decisions import before_claim
from callboard.board.reading.detail import detail, why
from callboard.board.reading.names import find_claim, find_dispatch, find_work
from callboard.board.reading.receipts import receipt, request_of
from callboard.board.reading.view import View
from callboard.surfaces.cli.chosen import board_of, board_options
from callboard.surfaces.cli.render import (
    Block,
    Table,
    count,
    document_text,
    duration,
    emit,
    faint,
    heading,
    local_time,
)
from callboard.surfaces.cli.status import reason_text


def _view(context: click.Context) -> View:
    """The present board, or `queue_missing` where it has no history."""
    return board_of(context).view().with_history()


@click.command()
@click.argument("node")
@board_options
@click.pass_context
def show(context: click.Context, node: str) -> None:
    """Show one node in full. NODE is its key, graph:key, its Work id or the start of one."""
    view = _view(context)
    document = detail(view, find_work(view.projection, node))
    board = board_of(context)
    for claim in document["claims"]:
        folder = board.run_folder(claim["run_id"]) if "run_id" in claim else None
        if folder is not None:
            claim["run_folder"] = str(folder)
    emit(context, document, lambda: _show_text(document))


def _show_text(document: dict[str, Any]) -> Iterator[Block]:
    work = document["work"]
    yield heading(document["name"])
    yield f"column    {document['column']}: {reason_text(document)}"
    yield f"work id   {document['work_id']}"
    yield f"graph     {document['graph_id']}"
    key = document["fairness_key"] or "(none)"
    yield f"turn      pool {document['pool']}, priority {document['priority']}, key {key}"
    tried = count(document["attempts"], "attempt")
    yield f"worker    {work['worker_profile']}, {tried} so far"
    yield f"posted    {local_time(work['enqueued'])}, place {_place(work['position'])}"
    yield f"payload   {document_text(work['payload'])}"
    if "result" in work:
        yield f"result    {document_text(work['result'])}"
    yield from _edges("after", document["predecessors"])
    yield from _edges("before", document["successors"])
    for claim in document["claims"]:
        yield from _claim_text(claim)
    if "next" in document:
        yield f"next: {document['next']}"
    yield from _stamp(document)


def _place(position: dict[str, Any]) -> str:
    return f"{position['commit']}.{position['operation']}"


def _edges(word: str, edges: list[dict[str, Any]]) -> Iterator[Block]:
    for edge in edges:
        barrier = f", delivery {edge['barrier']}" if edge["barrier"] != "none" else ""
        yield f"{word:<9} {edge['name']}  ({edge['state']}{barrier})"


def _claim_text(claim: dict[str, Any]) -> Iterator[Block]:
    yield f"claim     {claim['claim_id']}"
    ended = f", {claim['cancellation_reason']}" if "cancellation_reason" in claim else ""
    run = f", run {claim['run_id']}" if "run_id" in claim else ""
    yield (
        f"          {claim['state']}{ended}, granted {local_time(claim['granted_at'])}, "
        f"launch {claim['launch']}{run}"
    )
    if "run_folder" in claim:
        yield f"          logs in {claim['run_folder']}"


def _stamp(document: dict[str, Any]) -> Iterator[Block]:
    when = local_time(document["evaluated_at_ms"])
    yield faint(f"{document['provenance']} at {when}, tip {document['tip']}")


@click.command()
@click.argument("node", required=False)
@click.option("--request", "request_id", metavar="R", help="The receipt of a request.")
@click.option("--before-claim", "claim_id", metavar="C", help="The decision that made a Claim.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1024),
    default=20,
    show_default=True,
    help="The most competitors listed of each set.",
)
@click.option("--offset", type=click.IntRange(0), default=0, help="Competitors to pass over.")
@board_options
@click.pass_context
def explain(
    context: click.Context,
    node: str | None,
    request_id: str | None,
    claim_id: str | None,
    limit: int,
    offset: int,
) -> None:
    """Say why a NODE waits, what became of a request, or why a Claim went where it went."""
    _one_of(NODE=node, request=request_id, before_claim=claim_id)
    view = _view(context)
    if node is not None:
        document = why(view, find_work(view.projection, node))
        emit(context, document, lambda: _why_text(document))
    elif request_id is not None:
        document = receipt(view, request_of(view.projection, request_id))
        emit(context, document, lambda: _receipt_text(document))
    else:
        claim = find_claim(view.projection, str(claim_id))
        document = before_claim(view, claim, limit=limit, offset=offset)
        emit(context, document, lambda: _decision_text(document))


def _one_of(**given: str | None) -> None:
    if sum(value is not None for value in given.values()) != 1:
        names = ", ".join(
            name if name.isupper() else "--" + name.replace("_", "-") for name in given
        )
        raise click.UsageError(f"Give exactly one of {names}.")


def _why_text(document: dict[str, Any]) -> Iterator[Block]:
    yield heading(f"{document['name']} is {document['column']}: {document['reason']}")
    for obstacle in document["obstacles"]:
        yield f"  {_obstacle(obstacle, document['evaluated_at_ms'])}"
    if "line" in document:
        yield from _line_text(document["line"])
    for name, value in document.get("evidence", {}).items():
        if name not in ("path", "cause", "until_ms", "limit", "found"):
            yield f"  {name}: {value}"
    if "next" in document:
        yield f"next: {document['next']}"
    yield from _stamp(document)


def _obstacle(obstacle: dict[str, Any], now_ms: int) -> str:
    parts = [obstacle["reason"]]
    if "path" in obstacle:
        parts.append("waits along " + " <- ".join(obstacle["path"]))
    if "until_ms" in obstacle:
        left = duration(obstacle["until_ms"] - now_ms)
        parts.append(f"until {local_time(obstacle['until_ms'])}, in {left}")
    if "limit" in obstacle:
        parts.append(f"the {obstacle['limit']} limit is reached")
    if "found" in obstacle:
        parts.append(obstacle["found"])
    return ": ".join(parts)


def _line_text(line: dict[str, Any]) -> Iterator[Block]:
    if line["exact"] and line["ahead"] == 0:
        yield "  it is next"
        return
    bound = "" if line["exact"] else "at least "
    yield f"  {bound}{count(line['ahead'], 'grant')} before it" + (
        f", first {', '.join(line['next'])}" if line["next"] else ""
    )
    if "stop" in line:
        limit = f" ({line['limit']} limit)" if "limit" in line else ""
        yield f"  the planner stops there: {line['stop']}{limit}"


def _receipt_text(document: dict[str, Any]) -> Iterator[Block]:
    yield heading(f"{document['kind']} {document['request_id']}: {document['status']}")
    yield f"commit {document['commit_id']}, {local_time(document['at'])}"
    if "granted_claims" in document:
        yield (
            f"granted {document['granted_claims']} of {document['requested_claims']} Claims in "
            f"{document['reserved_dispatches']} of {document['requested_dispatches']} runs, "
            f"limited by {document['limiting_reason']}"
        )
        rows = [
            (one["node_key"], one["handle"], one["finish"], one["claim_ref"])
            for one in document["claims"]
        ]
        yield Table(("node", "handle", "finish", "claim"), rows)
        for one in document["dispatches"]:
            yield f"{one['status']}: run {one['run_id'] or '-'}, dispatch {one['dispatch_id']}"
    if "nodes" in document:
        nodes = [(one["node_key"], one["column"], one["reason"]) for one in document["nodes"]]
        yield Table(("node", "column", "why"), nodes)
    yield from _stamp(document)


def _decision_text(document: dict[str, Any]) -> Iterator[Block]:
    winner, decision = document["winner"], document["decision"]
    yield heading(f"{winner['name']} won, by {', '.join(winner['basis'])}")
    yield (
        f"pool {decision['pool']}, {decision['mode']}, {local_time(decision['at'])}, operation "
        f"{decision['operation']} of {decision['commit_id']}"
    )
    key = winner["fairness_key"] or "(none)"
    yield (
        f"priority {winner['priority']} at pass {winner['class_pass'] or '-'}, key {key} at pass "
        f"{winner['key_pass']}, place {_place(winner['position'])}: the oldest there"
    )
    for name, standing in document["passes"].items():
        what = "priority" if name == "classes" else f"key of priority {name}"
        rows = [(one["name"] or "(none)", one["pass"]) for one in standing["rows"]]
        yield Table((what, "pass"), rows)
        more = standing["count"] - standing["offset"] - len(rows)
        if more > 0:
            yield faint(f"and {more} more (--limit, --offset)")
    for name, taken in document["capacity"].items():
        before, after = taken["before"], taken["after"]
        yield f"{name} limit: {before} taken before, {after} after, of {taken['limit']}"
    yield from _stamp(document)


@click.command()
@click.argument("node", required=False)
@click.option("--claim", "claim_id", metavar="C", help="One Claim and its launch.")
@click.option("--dispatch", "dispatch_id", metavar="D", help="One launch and its Claims.")
@board_options
@click.pass_context
def trace(
    context: click.Context, node: str | None, claim_id: str | None, dispatch_id: str | None
) -> None:
    """List every commit that touched a NODE, a Claim or a dispatch, in order."""
    _one_of(NODE=node, claim=claim_id, dispatch=dispatch_id)
    view = _view(context)
    if node is not None:
        document = tracing.trace_work(view, find_work(view.projection, node))
    elif claim_id is not None:
        document = tracing.trace_claim(view, find_claim(view.projection, claim_id))
    else:
        found = find_dispatch(view.projection, str(dispatch_id))
        document = tracing.trace_dispatch(view, found)
    emit(context, document, lambda: _trace_text(document))


def _trace_text(document: dict[str, Any]) -> Iterator[Block]:
    rows = [
        (
            local_time(commit["at"]),
            operation["kind"],
            operation.get("name", ""),
            _operation_facts(operation),
            commit["role"],
            commit["commit_id"][:14],
        )
        for commit in document["commits"]
        for operation in commit["operations"]
    ]
    yield Table(("time", "what", "node", "facts", "by", "commit"), rows)
    yield from _stamp(document)


def _operation_facts(operation: dict[str, Any]) -> str:
    facts = [str(operation[name]) for name in ("state", "reason") if name in operation]
    if "run_id" in operation:
        facts.append(f"run {operation['run_id'][:12]}")
    if "disposition" in operation:
        facts.append(f"effects {operation['disposition']}")
    evidence = operation.get("evidence")
    if evidence is not None:
        facts.append(f"{evidence['source']} {evidence.get('conclusion', evidence['kind'])}")
    return ", ".join(facts)
