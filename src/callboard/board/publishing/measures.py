"""What a publication tells of itself: the facts of its span, the metrics of what it recorded.

Source: specification 1, §7.13. All of it is read from what was accepted, by the one process that
wrote it, so that each decision is counted once, whoever watches. It is never read back.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from msgspec import UNSET, UnsetType

from callboard import telemetry
from callboard.board.projection.state import Projection
from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops

_MAX_ATTEMPT = 4096


def trace_of(attempt: int) -> wire.Trace | UnsetType:
    """What a commit says of the recorded span it was made in; nothing without one."""
    ids = telemetry.recorded()
    if ids is None:
        return UNSET
    return wire.Trace(
        trace_id=ids.trace_id, span_id=ids.span_id, publisher_attempt=min(attempt, _MAX_ATTEMPT)
    )


def tell(projection: Projection, commit: wire.QueueCommit) -> None:
    """Tell what an accepted commit, which stands in `projection`, has decided: its ids in the span
    that it was published in, and the counts."""
    if not telemetry.is_on():
        return
    telemetry.tell(
        previous=commit.previous,
        policy_epoch=commit.policy_epoch,
        operations=len(commit.operations),
        work_refs=_ids(commit.operations, "work_id"),
        claim_refs=_ids(commit.operations, "claim_id"),
        dispatch_ids=_ids(commit.operations, "dispatch_id"),
    )
    _tell_grants(projection, commit)
    for operation in commit.operations:
        _count(projection, operation, commit.at)


def _ids(operations: Iterable[ops.Operation], name: str) -> list[str]:
    found = (getattr(one, name, UNSET) for one in operations)
    return list(dict.fromkeys(one for one in found if isinstance(one, str)))


def _tell_grants(projection: Projection, commit: wire.QueueCommit) -> None:
    """By which policy a batch was granted, and in which classes."""
    claims = [one for one in commit.operations if isinstance(one, ops.Claim)]
    if claims:
        works = [projection.works[one.work_id] for one in claims]
        telemetry.tell(
            pool=works[0].work.pool,
            mode=projection.policy.mode,
            priorities=sorted({str(one.priority) for one in works}),
        )


def _count(projection: Projection, operation: ops.Operation, at: int) -> None:
    if isinstance(operation, ops.Claim):
        work = projection.works[operation.work_id]
        telemetry.measure(
            "grants", pool=work.work.pool, priority=work.priority, mode=projection.policy.mode
        )
    elif isinstance(operation, ops.Completion | ops.ClaimCancellation):
        work = projection.works[operation.work_id]
        ended = "completed" if isinstance(operation, ops.Completion) else "cancelled"
        labels = telemetry.Labels(pool=work.work.pool, priority=work.priority, result=ended)
        taken_ms = at - projection.claims[operation.claim_id].at
        telemetry.measure("claims.finished", **labels)
        telemetry.measure("claim.duration", taken_ms / 1000, **labels)
    elif isinstance(operation, ops.Result | ops.DeliveryFailure):
        pool = projection.works[operation.work_id].work.pool
        verdict = "verified" if isinstance(operation, ops.Result) else "failed"
        telemetry.measure("deliveries", pool=pool, result=verdict)
    elif isinstance(operation, ops.Release):
        state = projection.dispatches[operation.dispatch_id]
        result = "not_run" if state.run is None else "run_ended"
        telemetry.measure("releases", pool=state.assignment.pool, result=result)


class Publication:
    """One request's way to its answer, as the metrics have it."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._began = time.monotonic()

    def answered(self, result: str, attempts: int) -> None:
        """Count it with its result and the tries that it took."""
        labels = telemetry.Labels(request_kind=self._kind, result=result)
        telemetry.measure("publications", **labels)
        telemetry.measure("publication.duration", time.monotonic() - self._began, **labels)
        if attempts > 1:
            telemetry.measure("publication.conflicts", attempts - 1, request_kind=self._kind)
