"""`callboard show`, `explain` and `trace`: one thing in full, why, and how it came to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from callboard.board.outputs.notes import notes_of
from callboard.board.protocol.contract import NO_WRITES
from callboard.board.protocol.identities import root_graph_id
from callboard.board.publishing.plan import CONTRACT_FIELD
from callboard.board.reading import tracing
from callboard.board.reading.columns import Columns
from callboard.board.reading.decisions import before_claim
from callboard.board.reading.detail import detail, placed_document, why
from callboard.board.reading.names import find_claim, find_dispatch, find_work
from callboard.board.reading.receipts import receipt, request_of
from callboard.board.reading.timing import timing_lines
from callboard.surfaces.cli.chosen import board_of, board_options
from callboard.surfaces.cli.left_words import left_lines
from callboard.surfaces.cli.machine import add_to_attempt, add_to_receipt, add_to_work
from callboard.surfaces.cli.render import (
    Block,
    Hint,
    Table,
    clock,
    count,
    document_text,
    emit,
    faint,
    heading,
    short,
)
from callboard.surfaces.cli.stage_words import evidence_text, name_text, stage_text
from callboard.surfaces.cli.stamp import present_ms, stamp_text
from callboard.surfaces.cli.words import (
    attempt_text,
    basis_text,
    blocked_text,
    conclusion_text,
    key_text,
    obstacle_text,
    reason_text,
    replaces_text,
    stop_text,
)

MAX_ROWS = 20


@click.command()
@click.argument("node")
@board_options
@click.pass_context
def show(context: click.Context, node: str) -> None:
    """Show one node in full. NODE is its key, graph:key, its Work id or the start of one."""
    board = board_of(context)
    view = board.view().with_history()
    document = detail(view, find_work(view.projection, node))
    add_to_work(board.host, view.projection, document)
    for claim in document["claims"]:
        add_to_attempt(board.host, view.projection, claim)
    if (result := document["work"].get("result")) is not None:
        document["notes"] = notes_of(board.site.repository, result)
    if document.get("next") == f"callboard show {document['typed']}":
        # Here one is already: what its last run left says more.
        _lead_to_logs(document)
    emit(context, document, lambda: _show_text(document))


def _note_text(note: dict[str, Any]) -> Iterator[Block]:
    if note["text"] is None:
        yield faint(f"note      {note['ref']} is not in this clone")
        return
    for at, line in enumerate(note["text"].rstrip("\n").split("\n")):
        yield f"{'' if at else 'note':<10}{line}"


def _lead_to_logs(document: dict[str, Any]) -> None:
    if document["claims"] and "run_folder" in document["claims"][-1]:
        document["next"] = f"callboard logs {document['typed']}"


def _show_text(document: dict[str, Any]) -> Iterator[Block]:
    work, now_ms = document["work"], present_ms(document)
    payload = {name: value for name, value in work["payload"].items() if name != CONTRACT_FIELD}
    yield heading(document["name"])
    yield f"column    {_column(document)}"
    yield f"stage     {document['stage']}: {stage_text(document['stage'])}"
    if evidence := evidence_text(document, now_ms):
        yield f"evidence  {evidence}"
    yield f"work id   {document['work_id']}"
    if document["graph_id"] != root_graph_id(work["payload"]):
        yield f"graph     {document['graph_id']}"
    key = key_text(document["fairness_key"])
    yield f"turn      pool {document['pool']}, priority {document['priority']}, key {key}"
    tried = count(document["attempts"], "attempt")
    yield f"worker    {work['worker_profile']}, {tried} so far"
    yield f"posted    {clock(work['enqueued'], now_ms)}, place {_place(work['position'])}"
    yield f"payload   {document_text(payload)}"
    contract = work["payload"].get(CONTRACT_FIELD)
    if contract is not None and contract != NO_WRITES:
        yield f"contract  {document_text(contract)}"
    if "result" in work:
        yield f"result    {document_text(work['result'])}"
    for note in document.get("notes", ()):
        yield from _note_text(note)
    yield from _lineage(document)
    yield from _edges("after", document["predecessors"])
    yield from _edges("before", document["successors"])
    for claim in document["claims"]:
        yield from _claim_text(claim, now_ms)
    # The hint of a node that failed itself leads here, where its logs are not at hand.
    if document.get("next") not in (None, f"callboard show {document['typed']}"):
        yield Hint(document["next"])
    yield faint(stamp_text(document))


def _column(document: dict[str, Any]) -> str:
    reason = reason_text(document, present_ms(document))
    return document["column"] if reason == document["column"] else f"{document['column']}: {reason}"


def _place(position: dict[str, Any]) -> str:
    return f"{position['commit']}.{position['operation']}"


def _lineage(document: dict[str, Any], indent: str = "") -> Iterator[Block]:
    """Both directions: what a node replaces, what replaces it, and what waits for it in vain."""
    if "replaces" in document:
        yield f"{indent}replaces  {replaces_text(document['replaces'])}"
    if "replaced_by" in document:
        one = document["replaced_by"]
        yield f"{indent}replaced  by {one['name']}  ({one['column']})"
    if "blocked" in document:
        yield f"{indent}blocked   {blocked_text(document)}"


def _edges(word: str, edges: list[dict[str, Any]]) -> Iterator[Block]:
    for edge in edges:
        yield f"{word:<9} {edge['name']}  ({edge['column']})"


def _claim_text(claim: dict[str, Any], now_ms: int) -> Iterator[Block]:
    yield f"attempt {claim['attempt']:<2}{attempt_text(claim)}"
    run = f", run {claim['run_id']}" if "run_id" in claim else ""
    yield f"          granted {clock(claim['granted_at'], now_ms)}{run}"
    yield f"          claim {claim['claim_id']}"
    yield from (f"          {said}" for said in timing_lines(claim.get("timing", {})))
    if "run_folder" in claim:
        yield f"          logs in {claim['run_folder']}"
    yield from left_lines(claim)


@click.command()
@click.argument("node", required=False)
@click.option(
    "--request", "--request-id", "request_id", metavar="R", help="The receipt of a request."
)
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
    board = board_of(context)
    view = board.view().with_history()
    if node is not None:
        document = why(view, find_work(view.projection, node))
        add_to_work(board.host, view.projection, document)
        emit(context, document, lambda: _why_text(document))
    elif request_id is not None:
        document = receipt(view, request_of(view.projection, request_id))
        add_to_receipt(board.host, view.projection, document)
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
    now_ms = present_ms(document)
    yield heading(f"{document['name']} is {_column(document)}")
    if document["column"] == "done":
        when = clock(document.get("since_ms"), now_ms)
        yield f"  since {when}, after {count(document['attempts'], 'attempt')}"
    if document["stage"] not in ("waiting", "ready"):
        # Of those the first line has said it, with what they wait for.
        yield f"  {stage_text(document['stage'])}"
    if evidence := evidence_text(document, now_ms):
        yield f"  {evidence}"
    yield from _lineage(document, "  ")
    if document["column"] != "ready":
        for obstacle in document["obstacles"][1:]:
            yield f"  and {obstacle_text(obstacle, now_ms)}"
    if "line" in document:
        yield from _line_text(document["line"], document["reason"])
    if document["column"] == "done":
        yield Hint(f"callboard show {document['typed']}")
    if "next" in document:
        yield Hint(document["next"])
    yield faint(stamp_text(document))


def _line_text(line: dict[str, Any], reason: str) -> Iterator[Block]:
    if line["exact"] and line["ahead"] == 0:
        yield "  it is next"
        return
    if line["ahead"] or not line["exact"]:
        bound = "" if line["exact"] else "at least "
        first = f", first {', '.join(line['next'])}" if line["next"] else ""
        yield f"  {bound}{count(line['ahead'], 'grant')} before it{first}"
    if "stop" in line and line["stop"] != reason:
        yield f"  nobody goes then: {stop_text(line['stop'], line.get('limit'))}"


def _receipt_text(document: dict[str, Any]) -> Iterator[Block]:
    yield heading(f"{document['kind']} {document['request_id']}: {document['status']}")
    now_ms = present_ms(document)
    yield f"commit {document['commit_id']}, {clock(document['at'], now_ms)}"
    yield from _change_text(document)
    if "granted_claims" in document:
        yield (
            f"granted {document['granted_claims']} of {document['requested_claims']} Claims in "
            f"{document['reserved_dispatches']} of {document['requested_dispatches']} runs, "
            f"no more: {stop_text(document['limiting_reason'], document.get('limit'))}"
        )
        listed = document["claims"][:MAX_ROWS]
        rows = [
            (name_text(one["name"]), one["handle"], one["finish"], one["claim_ref"])
            for one in listed
        ]
        yield Table(("node", "handle", "finish", "claim"), rows)
        yield from _more(document["claims"])
        for one in document["dispatches"][:MAX_ROWS]:
            stage = stage_text(one["stage"])
            yield f"{one['status']}: {stage}, run {one['run_id'] or '-'}, {one['dispatch_id']}"
            if "next" in one:
                yield Hint(one["next"], "  next: ")
        yield from _more(document["dispatches"])
    if "nodes" in document:
        nodes = [
            (name_text(one["name"]), one["column"], reason_text(one, now_ms))
            for one in document["nodes"][:MAX_ROWS]
        ]
        yield Table(("node", "column", "why"), nodes)
        yield from _more(document["nodes"])
    yield faint(stamp_text(document))


def _more(listed: list[Any]) -> Iterator[Block]:
    if len(listed) > MAX_ROWS:
        yield faint(f"and {len(listed) - MAX_ROWS} more (--json)")


def _change_text(document: dict[str, Any]) -> Iterator[Block]:
    if "works" in document:
        works = ", ".join(short(work_id) for work_id in document["works"][:MAX_ROWS])
        yield f"ended {works}: {document['reason']}"
        yield from _more(document["works"])
    if "what" in document:
        state = "paused" if document["paused"] else "open"
        yield f"{document['what']}: {state}, {document['reason']}"


def _decision_text(document: dict[str, Any]) -> Iterator[Block]:
    winner, decision = document["winner"], document["decision"]
    now_ms = present_ms(document)
    yield heading(f"{winner['name']} won: {basis_text(winner['basis'])}")
    yield (
        f"pool {decision['pool']}, {decision['mode']}, {clock(decision['at'], now_ms)}, operation "
        f"{decision['operation']} of {decision['commit_id']}"
    )
    key = key_text(winner["fairness_key"])
    yield (
        f"priority {winner['priority']} at pass {winner['class_pass'] or '-'}, key {key} at pass "
        f"{winner['key_pass']}, place {_place(winner['position'])}: the oldest there"
    )
    for name, standing in document["passes"].items():
        what = "priority" if name == "classes" else f"key of priority {name}"
        rows = [(key_text(one["name"]), one["pass"]) for one in standing["rows"]]
        yield Table((what, "pass"), rows)
        more = standing["count"] - standing["offset"] - len(rows)
        if more > 0:
            yield faint(f"and {more} more (--limit, --offset)")
    for name, taken in document["capacity"].items():
        before, after = taken["before"], taken["after"]
        yield f"{_PLACES[name]}: {before} taken before, {after} after, of {taken['limit']}"
    yield faint(stamp_text(document))


_PLACES = {
    "logical": "places for Claims",
    "native": "places for runs",
    "account": "places for Claims of its key",
}


@click.command()
@click.argument("node", required=False)
@click.option("--claim", "--claim-id", "claim_id", metavar="C", help="One Claim and its launch.")
@click.option("--dispatch", "dispatch_id", metavar="D", help="One launch and its Claims.")
@board_options
@click.pass_context
def trace(
    context: click.Context, node: str | None, claim_id: str | None, dispatch_id: str | None
) -> None:
    """List every commit that touched a NODE, a Claim or a dispatch, in order."""
    _one_of(NODE=node, claim=claim_id, dispatch=dispatch_id)
    board = board_of(context)
    view = board.view().with_history()
    if node is not None:
        state, columns = find_work(view.projection, node), Columns(view)
        document = tracing.trace_work(view, state)
        document["now"] = placed_document(columns, columns.place(state))
        add_to_work(board.host, view.projection, document["now"])
    elif claim_id is not None:
        document = tracing.trace_claim(view, find_claim(view.projection, claim_id))
    else:
        found = find_dispatch(view.projection, str(dispatch_id))
        document = tracing.trace_dispatch(view, found)
    emit(context, document, lambda: _trace_text(document))


def _trace_text(document: dict[str, Any]) -> Iterator[Block]:
    now_ms = present_ms(document)
    rows = [
        (
            clock(commit["at"], now_ms),
            operation["kind"],
            name_text(operation.get("name", "")),
            commit.get("stage", "-"),
            _operation_facts(operation),
            commit["role"],
            short(commit["commit_id"]),
        )
        for commit in document["commits"]
        for operation in commit["operations"]
    ]
    yield Table(("time", "what", "node", "then", "facts", "by", "commit"), rows)
    work_id = document["subject"].get("work_id")
    if work_id is not None:
        yield Hint(f"callboard show {short(work_id)}", "its attempts and logs: ")
    now = document.get("now", {})
    if "next" in now:
        yield f"now {_column(now | {'evaluated_at_ms': document['evaluated_at_ms']})}"
        yield Hint(now["next"])
    yield from _telemetry_text(document["commits"])
    yield faint(stamp_text(document))


def _telemetry_text(commits: list[dict[str, Any]]) -> Iterator[Block]:
    """Where else to look, if anybody recorded it."""
    ids = list(dict.fromkeys(one["trace_id"] for one in commits if "trace_id" in one))
    if ids:
        more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
        yield faint(f"spans recorded as trace {ids[0]}{more}")


def _operation_facts(operation: dict[str, Any]) -> str:
    facts = [str(operation[name]) for name in ("state", "reason") if name in operation]
    if "run_id" in operation:
        facts.append(f"run {short(operation['run_id'])}")
    if "disposition" in operation:
        facts.append(f"effects {operation['disposition']}")
    conclusion = operation.get("evidence", {}).get("conclusion")
    if conclusion is not None:
        facts.append(conclusion_text(conclusion))
    return ", ".join(facts)
