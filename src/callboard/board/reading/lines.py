"""A ledger line by line: the log of its commits, the count of what it holds, and its good lines.

Source: specification 1, §§7.6, 7.13. `diagnose` reads each line on its own and says so; what it
lists is never taken for the state of a board.
"""

from __future__ import annotations

from collections import Counter

from msgspec import UNSET, to_builtins

from callboard.board.ledger.checkpoint import prove
from callboard.board.ledger.history import History
from callboard.board.ledger.past import Segment
from callboard.board.protocol.commit import QueueCommit
from callboard.board.protocol.envelope import kind_of, read_line
from callboard.board.reading.columns import Columns
from callboard.board.reading.view import Document, View, known
from callboard.errors import CallboardError

MAX_LISTED = 16_384


def log(view: View, *, limit: int) -> Document:
    """The last `limit` commits, oldest of them first.

    What stood before a checkpoint is listed with the Git commit that holds it, `held_by`;
    `unavailable` counts what was asked for and cannot be listed, as this clone lacks it.
    """
    history = view.history
    total = history.projection.ordinal
    first = max(0, total - limit)
    rows: list[Document] = []
    unavailable = 0
    for segment in history.segments() if total else ():
        low = max(first, segment.base)
        end = segment.base + len(segment.spans)
        numbers = _line_numbers(segment.data)
        rows[:0] = [_row(history, segment, numbers, ordinal) for ordinal in range(low, end)]
        if segment.base <= first:
            break
        try:
            history.segment(segment.base - 1)
        except CallboardError as error:
            if error.code != "history_unavailable":
                raise
            unavailable = segment.base - first
            break
    found = {**view.stamp(), "count": total, "commits": rows}
    return found | ({"unavailable": unavailable} if unavailable else {})


def _line_numbers(data: bytes) -> dict[int, int]:
    """The number (from 1) of the line that begins at a byte."""
    found: dict[int, int] = {}
    start = 0
    while start < len(data):
        found[start] = len(found) + 1
        start = data.find(b"\n", start) + 1 or len(data)
    return found


def _row(history: History, segment: Segment, numbers: dict[int, int], ordinal: int) -> Document:
    start, end = segment.spans[ordinal - segment.base]
    found = {
        "ordinal": ordinal,
        "line": numbers[start],
        "bytes": end - start,
        **_commit(history.commit(ordinal)),
    }
    return found if segment.revision is None else {**found, "held_by": segment.revision}


def commit_facts(commit: QueueCommit) -> Document:
    """What a commit says of itself, without its operations."""
    return {
        "commit_id": commit.id,
        "at": commit.at,
        "kind": kind_of(commit.request),
        "request_id": commit.request.id,
        "role": commit.actor.role,
        "principal": commit.actor.principal,
    }


def trace_facts(commit: QueueCommit) -> Document:
    """Whether a commit names the recorded span that it was made in, and which."""
    if commit.trace is UNSET:
        return {"trace": "absent"}
    return {"trace": "recorded", **to_builtins(commit.trace)}


def _commit(commit: QueueCommit) -> Document:
    kinds = Counter(str(one.__struct_config__.tag) for one in commit.operations)
    return {**commit_facts(commit), "operations": dict(sorted(kinds.items()))}


def tally(view: View) -> Document:
    """What a valid ledger holds, in numbers."""
    projection = view.projection
    counters = projection.counters
    return {
        **view.stamp(),
        "valid": True,
        "bytes": len(view.history.data),
        "lines": view.history.data.count(b"\n"),
        "commits": len(view.history.spans),
        "works": counters.work,
        "available": counters.available,
        "claimed": counters.claimed,
        "completed": counters.completed,
        "cancelled": counters.cancelled,
        "columns": {name: len(placed) for name, placed in Columns(view).all().items()},
        "pending_deliveries": counters.pending_delivery,
        "claims": counters.claims,
        "unreleased_dispatches": counters.unreleased,
        "ledger_bytes": projection.ledger_bytes,
        "reserve_bytes": projection.reserve_bytes,
        "policy_epoch": projection.policy_epoch,
    }


def behind_checkpoints(history: History) -> Document:
    """What a ledger's checkpoints stand for, each replayed and compared where it is at hand.

    `{commits, checked:[{held_by, commits, bytes}], unchecked_commits, unchecked_in?}`. Raises
    `checkpoint_mismatch` where a checkpoint's state is not that of the ledger before it, and
    `ledger_invalid` where that ledger is none.
    """
    checked: list[Document] = []
    later, left, lacking = history, history.base, None
    while left:
        try:
            segment = later.segment(later.base - 1)
        except CallboardError as error:
            if error.code != "history_unavailable":
                raise
            lacking = error.details.get("revision")
            break
        prior = later.prefix(later.base)
        prove(later.commit(later.base), prior.projection)
        row = {"held_by": segment.revision, "commits": len(segment.spans)}
        checked.append(row | {"bytes": len(segment.data)})
        later, left = prior, segment.base
    found = {"commits": history.base, "checked": checked, "unchecked_commits": left}
    return found | known(unchecked_in=lacking)


def diagnose(data: bytes) -> Document:
    """Lines judged each by itself, up to the `MAX_LISTED`th unreadable one.

    `{lines, readable_lines, unreadable_lines, unjudged_lines, readable:[…], unreadable:[…]}`, the
    three kinds of lines adding up to all. A readable line may still be wrong in its place; only a
    whole replay says what is valid.
    """
    readable: list[Document] = []
    unreadable: list[Document] = []
    lines = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    good = number = start = 0
    # What is no ledger at all can have millions of lines; so many faults say enough.
    while start < len(data) and len(unreadable) < MAX_LISTED:
        number += 1
        end = data.find(b"\n", start)
        whole = end >= 0
        end = end if whole else len(data)
        try:
            if not whole:
                raise CallboardError("truncated_line", "the last line has no newline")
            commit = read_line(data[start:end]).commit
            good += 1
            if len(readable) < MAX_LISTED:
                readable.append({"line": number, "byte": start, **_commit(commit)})
        except CallboardError as error:
            unreadable.append(
                {
                    "line": number,
                    "byte": start,
                    "cause": error.code,
                    "message": error.message[:300],
                }
            )
        start = end + 1
    return {
        "lines": lines,
        "readable_lines": good,
        "unreadable_lines": len(unreadable),
        "unjudged_lines": lines - number,
        "readable": readable,
        "unreadable": unreadable,
    }
