"""What a run of the board tells whoever listens: the facts that commits record, one at a time.

Looking only: each fact is read from the ledger, and nothing is decided or counted here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from callboard.board.ledger.history import History
from callboard.board.projection.entities import WorkState
from callboard.board.projection.state import Projection
from callboard.board.protocol import operations as ops
from callboard.errors import CallboardError

_WORK_EVENTS: dict[type[Any], str] = {
    ops.Work: "admitted",
    ops.Claim: "granted",
    ops.Completion: "completed",
    ops.Result: "verified",
    ops.DeliveryFailure: "delivery_failed",
    ops.ClaimCancellation: "claim_cancelled",
    ops.WorkCancellation: "work_cancelled",
}


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One recorded fact of interest: the commit's time, a kind, and JSON-ready details.

    The kind `waiting` is no fact of the ledger: nothing runs, and the next retry is at `until_ms`.
    """

    at_ms: int
    kind: str
    details: dict[str, object]


def events_between(history: History, first: int, end: int) -> Iterator[RunEvent]:
    """The facts recorded in the commits from ordinal `first` to before `end`, in order.

    What a checkpoint stands for by now, and this clone does not hold, is left out.
    """
    for number in range(first, end):
        try:
            commit = history.commit(number)
        except CallboardError as error:
            if error.code != "history_unavailable":
                raise
            continue
        ended = {one.work_id for one in commit.operations if isinstance(one, ops.WorkCancellation)}
        for operation in commit.operations:
            event = _event(history.projection, operation, ended)
            if event is not None:
                kind, details = event
                yield RunEvent(commit.at, kind, details)


def waiting(now_ms: int, state: WorkState, until_ms: int, others: int) -> RunEvent:
    """The Work is tried again first, at `until_ms`, and `others` more behind it."""
    details = {**_facts(state), "until_ms": until_ms, "others": others}
    return RunEvent(now_ms, "waiting", details)


def _event(
    projection: Projection, operation: ops.Operation, ended: set[str]
) -> tuple[str, dict[str, object]] | None:
    """The event of an operation; `ended` is the Work that the same commit ends for good."""
    if isinstance(operation, ops.Release):
        conclusion = operation.evidence.conclusion
        found: dict[str, object] = {"dispatch_id": operation.dispatch_id}
        return "released", found | (
            {"conclusion": conclusion} if isinstance(conclusion, str) else {}
        )
    if isinstance(operation, ops.Dispatch):
        return operation.state, {"dispatch_id": operation.dispatch_id}
    if isinstance(operation, ops.Checkpoint):
        return "checkpointed", {"commits": projection.commit_ids[operation.prior_tip] + 1}
    kind = _WORK_EVENTS.get(type(operation))
    work_id = getattr(operation, "work_id", None)
    if kind is None or not isinstance(work_id, str):
        return None
    details = _facts(projection.works[work_id])
    for name in ("claim_id", "dispatch_id", "reason"):
        value = getattr(operation, name, None)
        if isinstance(value, str):
            details[name] = value
    if isinstance(operation, ops.ClaimCancellation) and work_id not in ended:
        details["retry_not_before"] = operation.retry_not_before
    if isinstance(operation, ops.WorkCancellation):
        details["attempts"] = projection.works[work_id].attempts
    return kind, details


def _facts(state: WorkState) -> dict[str, object]:
    work = state.work
    return {
        "work_id": work.work_id,
        "node_key": work.node_key,
        "graph_id": work.graph_id,
        "fairness_key": work.fairness_key,
        "priority": state.priority,
    }
