"""The state document: a projection as one canonical JSON value.

Source: wire-v3 §8. Two projections mean the same exactly when their documents are equal. Fields
without a value are left out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from callboard.board.projection.entities import (
    ClaimState,
    Clock,
    DispatchState,
    PoolClocks,
    RequestState,
    WorkState,
)
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import POSITION_BITS

Document = dict[str, Any]


def state_document(projection: Projection) -> Document:
    """The whole state, ready for the codec."""
    return {
        "repository": projection.repository,
        "tip": projection.tip,
        "policy_epoch": projection.policy_epoch,
        "policy": _plain(projection.policy),
        "works": {key: work_document(state) for key, state in projection.works.items()},
        "claims": {key: _claim(state) for key, state in projection.claims.items()},
        "dispatches": {key: _dispatch(state) for key, state in projection.dispatches.items()},
        "observations": _all_plain(projection.observations),
        "requests": [_request(state) for state in projection.requests.values()],
        "clocks": {pool: _clocks(clocks) for pool, clocks in projection.clocks.items()},
        "admission_paused": projection.admission_paused,
        "grants_paused": projection.grants_paused,
        "credential_generation": projection.credential_generation,
        "stats": _stats(projection),
        "ledger_bytes": projection.ledger_bytes,
        "observation_writes": projection.observation_writes,
        "seen_epochs": dict(projection.seen_epochs),
        "seen_generations": dict(projection.seen_generations),
        "observation_ids": _all_plain(projection.observation_ids),
        "terminal_barriers": {
            key: state.barrier
            for key, state in projection.works.items()
            if state.barrier in ("verified", "failed")
        },
        "cancellations": {
            key: state.cancellation_commit_id
            for key, state in projection.works.items()
            if state.cancellation_commit_id is not None
        },
        "completion_times": {
            key: state.completed_at
            for key, state in projection.works.items()
            if state.completed_at is not None
        },
        "last_at": projection.last_at,
    }


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value)


def _all_plain(values: dict[str, Any]) -> Document:
    return {key: _plain(value) for key, value in values.items()}


def _given(**fields: object) -> Document:
    return {name: value for name, value in fields.items() if value is not None}


def work_document(state: WorkState) -> Document:
    """One Work as the state keeps it."""
    return {
        **_plain(state.work),
        "state": state.state,
        "position": {
            "commit": state.place >> POSITION_BITS,
            "operation": state.place & ((1 << POSITION_BITS) - 1),
        },
        "attempts": state.attempts,
        "retry_not_before": state.retry_not_before,
        "barrier": state.barrier,
        **_given(
            claim_id=state.claim_id,
            completion_id=state.completion_id,
            result=state.result,
            result_commit_id=state.result_commit_id,
            disposition=state.disposition,
            cancellation_reason=state.cancellation_reason,
            cancellation_commit_id=state.cancellation_commit_id,
        ),
    }


def _claim(state: ClaimState) -> Document:
    return {
        **_plain(state.claim),
        "state": state.state,
        "commit_id": state.commit_id,
        "request_id": state.request_id,
        **_given(
            terminal_commit_id=state.terminal_commit_id,
            cancellation_reason=state.cancellation_reason,
            retry_not_before=state.retry_not_before,
        ),
    }


def _dispatch(state: DispatchState) -> Document:
    return {
        **_plain(state.assignment),
        "profile": _plain(state.profile),
        "state": state.state,
        "released": state.released,
        "lifecycle_writes": state.lifecycle_writes,
        **_given(
            sender=_plain(state.sender),
            run=_plain(state.run),
            reason=state.reason,
            credential_principal=state.credential_principal,
        ),
    }


def _request(state: RequestState) -> Document:
    return {
        "id": state.id,
        "request_id": state.request_id,
        "kind": state.kind,
        "fingerprint": state.fingerprint,
        "parameters_digest": state.parameters_digest,
        "actor": _plain(state.actor),
        "policy_epoch": state.policy_epoch,
        "at": state.at,
        "claims": list(state.claims),
        **_given(dispatch_parameters=_plain(state.dispatch_parameters)),
    }


def _clocks(clocks: PoolClocks) -> Document:
    return {
        "classes": _clock(clocks.classes),
        "keys": {str(priority): _clock(clock) for priority, clock in clocks.keys.items()},
    }


def _clock(clock: Clock) -> Document:
    return {
        "v": str(clock.v),
        "pass": {name: str(passing) for name, passing in clock.passes.items()},
        "active": dict.fromkeys(sorted(clock.active), True),
    }


def _stats(projection: Projection) -> Document:
    counters = projection.counters
    return {
        "work": counters.work,
        "available": counters.available,
        "claimed": counters.claimed,
        "completed": counters.completed,
        "cancelled": counters.cancelled,
        "claims": counters.claims,
        "dispatches": counters.unreleased,
        "transactions": counters.transactions,
        "nodes": counters.nodes,
    }
