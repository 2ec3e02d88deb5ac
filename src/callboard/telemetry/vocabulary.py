"""The words of telemetry: which spans and metrics there are, and all that they may say.

Closed on purpose: what has no name here cannot be told. An id is told as it is; a text that
somebody thought up is told by its digest, which still tells one from another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypedDict

PREFIX = "work_queue."
MAX_LISTED = 256

SpanName = Literal[
    "work-queue.schedule.run",
    "work-queue.publish.run",
    "work-queue.launch.run",
    "work-queue.reconcile.run",
    "work-queue.run.run",
    "work-queue.run.setup",
    "work-queue.run.worker",
    "work-queue.run.wrap-up",
    "work-queue.run.verify",
]

MetricName = Literal[
    "grants",
    "claims.finished",
    "claim.duration",
    "deliveries",
    "releases",
    "launches",
    "publications",
    "publication.conflicts",
    "publication.duration",
    "reconcile.findings",
    "dispatches.open",
]


class Facts(TypedDict, total=False):
    """All that a span may say. `result` is a code; `attempt` counts tries upon newer tips."""

    request_id: str
    request_kind: str
    commit_id: str
    previous: str | None
    policy_epoch: str
    pool: str
    mode: str
    priorities: Sequence[str]
    claim_refs: Sequence[str]
    work_refs: Sequence[str]
    dispatch_id: str
    dispatch_ids: Sequence[str]
    handle: str
    run_id: str
    run_attempt: int
    sender_run_id: str
    attempt: int
    observed_git_sha: str
    replayed: bool
    operations: int
    findings: Sequence[str]
    result: str


class Labels(TypedDict, total=False):
    """All that a metric may be told apart by: names and codes of which a board has few."""

    pool: str
    mode: str
    priority: int
    request_kind: str
    result: str


_Kind = tuple[Literal["create_counter", "create_histogram", "create_gauge"], str, str]

METRICS: Final[Mapping[MetricName, _Kind]] = {
    "grants": ("create_counter", "{claim}", "Claims granted"),
    "claims.finished": ("create_counter", "{claim}", "Claims completed or cancelled"),
    "claim.duration": ("create_histogram", "s", "From a Claim's grant to its end"),
    "deliveries": ("create_counter", "{work}", "Deliveries verified or failed"),
    "releases": ("create_counter", "{dispatch}", "Launches released"),
    "launches": ("create_counter", "{dispatch}", "Launches tried, by what came of them"),
    "publications": ("create_counter", "{request}", "Requests published"),
    "publication.conflicts": ("create_counter", "{try}", "Tries that had to be made again"),
    "publication.duration": ("create_histogram", "s", "From the first try to the answer"),
    "reconcile.findings": ("create_counter", "{finding}", "Findings that are new"),
    "dispatches.open": ("create_gauge", "{dispatch}", "Launches not released yet"),
}
"""Every metric, named without its prefix: how it is made, its unit and its meaning."""

# An id as Callboard and its hosts make them.
_ID = r"\A[A-Za-z0-9][A-Za-z0-9._:+-]{0,127}\Z"


def attributes(facts: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """What may be told of them, under their names for others."""
    return {
        PREFIX + name: _tellable(value)
        for name, value in facts.items()
        if name in known and value is not None
    }


def _tellable(value: Any) -> bool | int | str | list[str]:
    if isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        if re.match(_ID, value):
            return value
        import hashlib  # Here, as starting up should not pay for it.

        return f"sha256:{hashlib.sha256(value.encode()).hexdigest()[:16]}"
    return [str(_tellable(str(one))) for one in list(value)[:MAX_LISTED]]
