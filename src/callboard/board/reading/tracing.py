"""Traces: every commit that touched a Work, a Claim or a dispatch, in causal order.

Source: specification 1, §7.13. Lines are looked through as bytes first and only those that name
one of the ids are read again, so a trace costs little more than finding its own commits. Ledgers
that checkpoints stand for are read as far back as the subject goes, else `history_unavailable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import UNSET

from callboard.board.ledger.history import History
from callboard.board.ledger.past import Segment
from callboard.board.projection.entities import ClaimState, DispatchState, WorkState
from callboard.board.projection.transitions.context import POSITION_BITS
from callboard.board.protocol import operations as ops
from callboard.board.protocol.commit import QueueCommit
from callboard.board.reading.attempts import attempts_by_work
from callboard.board.reading.lines import commit_facts, trace_facts
from callboard.board.reading.names import Names
from callboard.board.reading.progress import Progress
from callboard.board.reading.view import Document, View
from callboard.canonical import encode

_FACTS = (
    "claim_id",
    "dispatch_id",
    "handle",
    "claim_handle",
    "state",
    "reason",
    "disposition",
    "retry_not_before",
    "descriptor",
)


def trace_work(view: View, state: WorkState) -> Document:
    """The trace of a Work with all its Claims and dispatches."""
    claims = attempts_by_work(view.projection).get(state.work.work_id, [])
    ids = {state.work.work_id}
    ids |= {claim.claim.claim_id for claim in claims}
    ids |= {claim.claim.dispatch_id for claim in claims}
    name = Names(view.projection).label(state.work.work_id)
    first = state.place >> POSITION_BITS
    subject = {"work_id": state.work.work_id, "name": name}
    return _trace(view, subject, ids, first, Progress(view.projection))


def trace_claim(view: View, claim: ClaimState) -> Document:
    """The trace of one Claim and its launch."""
    ids = {claim.claim.claim_id, claim.claim.dispatch_id}
    first = view.projection.commit_ids[claim.commit_id]
    progress = Progress(view.projection, is_claim=True)
    subject = {"claim_id": claim.claim.claim_id}
    return _trace(view, subject, ids, first, progress, _ends([claim]))


def trace_dispatch(view: View, dispatch: DispatchState) -> Document:
    """The trace of one launch with all its Claims."""
    ids = {dispatch.assignment.dispatch_id}
    ids |= {member.claim_id for member in dispatch.assignment.claims}
    first = view.projection.commit_ids[dispatch.assignment.commit_id]
    subject = {"dispatch_id": dispatch.assignment.dispatch_id}
    ends = _ends(view.projection.claims[one.claim_id] for one in dispatch.assignment.claims)
    return _trace(view, subject, ids, first, Progress(view.projection, is_launch=True), ends)


def _ends(claims: Iterable[ClaimState]) -> dict[str, str]:
    """Work id -> the commit that ended its Claim. Cancelling a node ends its Claim, and the record
    of it need not name the Claim."""
    return {
        claim.claim.work_id: claim.terminal_commit_id
        for claim in claims
        if claim.state == "cancelled" and claim.terminal_commit_id is not None
    }


def _trace(
    view: View,
    subject: Document,
    ids: set[str],
    first: int,
    progress: Progress,
    ends: Mapping[str, str] = MappingProxyType({}),
) -> Document:
    """The commits from ordinal `first` on that touch one of the ids or are one of the `ends` of
    their Claims, each with how far the subject had come after it."""
    names = Names(view.projection)
    found = [
        {
            **_commit(commit, touching, names),
            **progress.after(commit, [operation for _index, operation in touching]),
        }
        for commit in _naming(view.history, ids | set(ends), first)
        if (
            touching := [
                one
                for one in enumerate(commit.operations)
                if _touches(one[1], ids) or _is_end(commit, one[1], ends)
            ]
        )
    ]
    return {**view.stamp(), "subject": subject, "commits": found}


def _naming(history: History, ids: set[str], first: int) -> Iterable[QueueCommit]:
    """The commits whose lines hold one of the ids; a line with escapes is always read."""
    needles = [encode(one)[1:-1] for one in sorted(ids)]
    for segment in _since(history, first):
        data = segment.data
        for ordinal, (start, end) in enumerate(segment.spans, start=segment.base):
            if ordinal == segment.base > 0:
                # A checkpoint names everything, and does nothing.
                continue
            escaped = data.find(b"\\u", start, end) >= 0
            if escaped or any(data.find(needle, start, end) >= 0 for needle in needles):
                yield history.commit(ordinal)


def _since(history: History, first: int) -> list[Segment]:
    """The ledgers that hold the commits from ordinal `first` on, oldest first."""
    found: list[Segment] = []
    for segment in history.segments():
        found.insert(0, segment)
        if segment.base <= first:
            break
    return found


def _touches(operation: ops.Operation, ids: set[str]) -> bool:
    """Records about one Claim count by it, so that the others of its dispatch stay out."""
    names = ("claim_id", "work_id", "dispatch_id")
    values = [getattr(operation, name, UNSET) for name in names]
    if values[0] is not UNSET:
        values.pop()
    return any(value in ids for value in values)


def _is_end(commit: QueueCommit, operation: ops.Operation, ends: Mapping[str, str]) -> bool:
    return isinstance(operation, ops.WorkCancellation) and ends.get(operation.work_id) == commit.id


def _commit(
    commit: QueueCommit, touching: list[tuple[int, ops.Operation]], names: Names
) -> Document:
    return {
        **commit_facts(commit),
        "policy_epoch": commit.policy_epoch,
        **trace_facts(commit),
        "operations": [_operation(index, one, names) for index, one in touching],
    }


def _operation(index: int, operation: ops.Operation, names: Names) -> Document:
    found: Document = {"index": index, "kind": str(operation.__struct_config__.tag)}
    work_id = getattr(operation, "work_id", None)
    if isinstance(work_id, str):
        found |= {"work_id": work_id, "name": names.label(work_id)}
    for name in _FACTS:
        value: Any = getattr(operation, name, UNSET)
        if value is not UNSET:
            found[name] = value
    run = getattr(operation, "run", UNSET)
    run_id = getattr(operation, "run_id", None) if run is UNSET else run.run_id
    if isinstance(run_id, str):
        found["run_id"] = run_id
    evidence = getattr(operation, "evidence", UNSET)
    if evidence is not UNSET:
        found["evidence"] = msgspec.to_builtins(evidence)
    return found
