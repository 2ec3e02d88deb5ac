"""`work_queue_read` and `work_queue_explain`: the snapshot, a page or a node at a time.

Source: specification 1, §7.12. Every answer names the snapshot it is from and what it predicts is
called a prediction; it never says that anything is so now.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from callboard import canonical
from callboard.board.outputs.scope import SELECTOR, resolve
from callboard.board.reading.activation_document import Node, PoolFacts
from callboard.errors import CallboardError
from callboard.surfaces.mcp.answers import MAX_ANSWER_BYTES, Document, add_fitting, size_of
from callboard.surfaces.mcp.arguments import ExplainArguments, ReadArguments
from callboard.surfaces.mcp.preview import preview
from callboard.surfaces.mcp.session import Session
from callboard.validate import show

_LIMIT = 50
_BODIES = ("payload", "result")
# Long, and told of one node at a time.
_LONG = ("obstacles", "claims", "gates", "evidence")
_CORE = ("work_id", "pool", "priority", "column", "stage", "reason", "claim_handle")
_MIN_PREFIX = 6
_MAX_POOLS_BYTES = 10 * 1024
# What `add_fitting` and the end of a page may still add.
_SPARE = 1_024


def read(session: Session, arguments: ReadArguments, _raw: Mapping[str, Any]) -> Document:
    """A page of nodes; the first one with the pools, and with what is staged."""
    snapshot = session.snapshot
    pool = arguments.pool if isinstance(arguments.pool, str) else None
    if pool is not None:
        _pool(session, pool)
    column = arguments.column if isinstance(arguments.column, str) else None
    filters = canonical.digest({"column": column, "pool": pool})[:16]
    is_first = not isinstance(arguments.cursor, str)
    start = 0 if is_first else _position(session, arguments.cursor, filters)
    matching = [
        node
        for node in snapshot.nodes
        if column in (None, node.column) and pool in (None, node.pool)
    ]
    document: Document = {**snapshot.stamp(), "count": len(matching)}
    if is_first:
        document |= _board(session, pool)
    nodes = _page(
        matching[start:],
        arguments.limit if isinstance(arguments.limit, int) else _LIMIT,
        bodies=arguments.bodies is True,
        room=MAX_ANSWER_BYTES - _SPARE - size_of(document),
        is_first=is_first,
    )
    document["nodes"] = nodes
    after = start + len(nodes)
    # A first page that is full of other things may have no node; the next one then begins there.
    document["next_cursor"] = _cursor(session, after, filters) if after < len(matching) else None
    return document


def _page(
    nodes: list[Node], limit: int, *, bodies: bool, room: int, is_first: bool
) -> list[Document]:
    found: list[Document] = []
    for node in nodes[:limit]:
        row = _row(node, bodies)
        need = size_of(row) + 1
        if need > room and not found and not is_first:
            # It has a page of its own, and even that is too small for it.
            row = _shortened(node, room)
            need = size_of(row) + 1
        if need > room:
            break
        room -= need
        found.append(row)
    return found


def _row(node: Node, bodies: bool) -> Document:
    row: Document = msgspec.to_builtins(node)
    for name in ("obstacles", "claims", "gates", *(() if bodies else _BODIES)):
        row.pop(name, None)
    return row


def _shortened(node: Node, room: int) -> Document:
    row = _row(node, bodies=False) | {"body_left_out": True}
    if size_of(row) < room:
        return row
    return {name: row[name] for name in _CORE if name in row} | {"row_left_out": True}


def _board(session: Session, pool: str | None) -> Document:
    """What a first page tells beside its nodes."""
    snapshot = session.snapshot
    found: Document = {
        "role": session.role,
        "repository": snapshot.repository,
        "paused": snapshot.paused,
        "not_in_snapshot": msgspec.to_builtins(snapshot.left_out),
        "pools": [],
    }
    if session.staging is not None:
        found["staged"] = preview(session)
    chosen = [one for one in snapshot.pools if pool in (None, one.pool)]
    room = _MAX_POOLS_BYTES
    for one in chosen:
        facts = _brief(one)
        if pool is not None and size_of(whole := msgspec.to_builtins(one)) < room:
            facts = whole
        room -= size_of(facts) + 1
        if room < 0:
            found["pools_left_out"] = len(chosen) - len(found["pools"])
            break
        found["pools"].append(facts)
    return found


def _brief(pool: PoolFacts) -> Document:
    """A pool among others; explain, or a page of this pool alone, tells the rest."""
    return {
        "pool": pool.pool,
        "columns": pool.columns,
        "limits": pool.limits,
        "open": pool.open,
        "workers": [one["worker_profile"] for one in pool.workers[:8]],
        "prediction": pool.prediction,
    }


# --- cursors -------------------------------------------------------------------------------------


def _cursor(session: Session, position: int, filters: str) -> str:
    value = {"at": position, "of": session.snapshot_sha256[:16], "where": filters}
    return base64.urlsafe_b64encode(canonical.encode(value)).decode().rstrip("=")


def _position(session: Session, cursor: object, filters: str) -> int:
    """Where a page begins. A cursor walks one snapshot under one filter."""
    try:
        data = base64.b64decode(str(cursor) + "=" * (-len(str(cursor)) % 4), b"-_", validate=True)
        value = canonical.decode(data)
    except (ValueError, binascii.Error, CallboardError):
        value = None
    if isinstance(value, dict) and value == {
        "at": value.get("at"),
        "of": session.snapshot_sha256[:16],
        "where": filters,
    }:
        at = value["at"]
        if type(at) is int and 0 <= at <= len(session.snapshot.nodes):
            return at
    raise CallboardError(
        "cursor_invalid",
        f"the cursor {show(cursor)} is none of this snapshot under these filters",
        "give the next_cursor of the page before together with its column and pool, or none",
    )


# --- one node ------------------------------------------------------------------------------------


def explain(session: Session, arguments: ExplainArguments, raw: Mapping[str, Any]) -> Document:
    """One node: where it stands and why, what comes before it, and its pool's competition."""
    node = _named(session, arguments, raw)
    whole: Document = msgspec.to_builtins(node)
    row = {name: value for name, value in whole.items() if name not in (*_LONG, *_BODIES)}
    document: Document = {**session.snapshot.stamp(), "role": session.role, "node": row}
    bodies = _BODIES if arguments.bodies is True else ()
    parts = {name: whole[name] for name in ("evidence", *bodies, *_LONG) if name in whole}
    add_fitting(document, row, parts)
    pool = next((one for one in session.snapshot.pools if one.pool == node.pool), None)
    if pool is not None:
        add_fitting(document, document, {"pool": msgspec.to_builtins(pool)})
    return document


def _named(session: Session, arguments: ExplainArguments, raw: Mapping[str, Any]) -> Node:
    if arguments.work_id is not UNSET and SELECTOR in raw:
        raise CallboardError(
            "arguments_invalid",
            "work_id and claim_handle are both given",
            "name one node: by its work_id, or by a Claim of this run",
        )
    if isinstance(arguments.work_id, str):
        return _find(session, arguments.work_id)
    if session.assignment is None:
        raise CallboardError(
            "claim_scope_invalid" if SELECTOR in raw else "arguments_invalid",
            f"{show(raw[SELECTOR])} is no Claim of a {session.role}, which has none"
            if SELECTOR in raw
            else "neither a work_id nor a Claim is given",
            "name a node by the work_id that work_queue_read gives",
        )
    return _find(session, resolve(session.assignment, raw).work_id)


def _find(session: Session, text: str) -> Node:
    found = [node for node in session.snapshot.nodes if node.work_id == text]
    if not found and len(text) >= _MIN_PREFIX:
        found = [node for node in session.snapshot.nodes if node.work_id.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise CallboardError(
            "selector_ambiguous",
            f"{show(text)} can mean {len(found)} nodes",
            "give more of the id",
            {"count": len(found), "candidates": [node.work_id for node in found[:20]]},
        )
    raise CallboardError(
        "work_unknown",
        f"the snapshot has no node {show(text)}",
        "work_queue_read lists the nodes; what was posted after the activation is in no snapshot",
    )


def _pool(session: Session, name: str) -> None:
    known = [one.pool for one in session.snapshot.pools]
    if name not in known:
        raise CallboardError(
            "pool_unknown",
            f"the snapshot has no pool {show(name)}",
            "pools: " + (", ".join(known[:20]) or "none yet"),
        )
