"""`control.json`: an attempt's word that its layer is to end. Version 2.

Source: specification 3 (the last resort); layers.md §§3, 4. Only the attempt that is being
finished may speak.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from callboard.layers.records.base import Id, Name, Record, Ref, Sha256, Text, Time


class Producer(Record, frozen=True, kw_only=True):
    """Who speaks: exactly what stands in its assignment."""

    session_id: Id
    role: Name
    attempt_id: Id


class AttemptedRoute(Record, frozen=True, kw_only=True):
    """A way that was tried before an end was called unavoidable."""

    route: Text
    outcome: Text
    evidence_ref: Ref | None = None


class Control(Record, frozen=True, kw_only=True):
    """The request to go on or to stop. `goal_met` cites a receipt, an error its routes."""

    schema_version: Literal[2]
    control_id: Id
    state: Literal["running", "stopped"]
    stop_reason: Literal["goal_met", "unresolvable_error"] | None = None
    producer: Producer
    created_at_ms: Time
    eval_receipt_ref: Ref | None = None
    summary: Text | None = None
    blocker: Literal["human_only", "credential", "destructive", "billable"] | None = None
    attempted_routes: Annotated[tuple[AttemptedRoute, ...], msgspec.Meta(max_length=100)] = ()


class ControlRejection(Record, frozen=True, kw_only=True):
    """`control_rejected/<attempt>.receipt.json`: why a control was not followed.

    One that was left while no attempt was under way has `between_<revision>` for an attempt.
    """

    schema_version: Literal[1]
    body_sha256: Sha256
    code: Text
    reason: Text
    attempt_id: Id | None
    decided_at_ms: Time
