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
from callboard.board.projection.routes import Revision, admitted
from callboard.board.projection.state import PoolState, Projection
from callboard.board.projection.transitions.context import POSITION_BITS
from callboard.board.protocol.operations import IssueComment, IssueLink

Document = dict[str, Any]


def state_document(projection: Projection) -> Document:
    """The whole state, ready for the codec."""
    return {
        "repository": projection.repository,
        "tip": projection.tip,
        "policy_epoch": projection.policy_epoch,
        "policy": _plain(projection.policy),
        "works": {
            key: work_document(state) | _promise(projection, state)
            for key, state in projection.works.items()
        },
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
        **_extensions(projection),
    }


def _extensions(projection: Projection) -> Document:
    """What not every board has: each part is there only where it says something."""
    deployments = {
        name: routes for name, pool in projection.pools.items() if (routes := _routes(pool))
    }
    links = projection.links
    parts: Document = {
        "deployments": deployments,
        "issue_links": {
            work_id: _fact(state.link, state.commit_id, "work_id")
            for work_id, state in links.by_work.items()
        },
        "issue_comments": {
            comment_id: _fact(state.comment, state.commit_id, "comment_id")
            for comment_id, state in links.comments.items()
        },
    }
    return {name: part for name, part in parts.items() if part}


def _routes(pool: PoolState) -> Document:
    return {
        name: {
            "current": route.current,
            "revisions": {
                ref: {"profile": _plain(revision.profile), "available": revision.available}
                for ref, revision in route.revisions.items()
            },
        }
        for name, route in pool.routes.items()
        if not route.is_original
    }


def _fact(operation: IssueLink | IssueComment, commit_id: str, key: str) -> Document:
    found: Document = _plain(operation)
    del found["kind"], found[key]
    return {**found, "commit_id": commit_id}


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value)


def _all_plain(values: dict[str, Any]) -> Document:
    return {key: _plain(value) for key, value in values.items()}


def _given(**fields: object) -> Document:
    return {name: value for name, value in fields.items() if value is not None}


def _promise(projection: Projection, state: WorkState) -> Document:
    """What an open Work was promised of its worker, where the policy alone does not tell it."""
    if state.is_settled:
        return {}
    work = state.work
    profile = projection.policy.pools[work.pool].profiles[work.worker_profile]
    promise = state.lane.promise
    if promise == admitted(work.worker_profile, Revision(profile), None).promise:
        return {}
    contract, ref = promise
    return {"admission_contract": contract} if contract else {"admission_ref": ref}


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
        **({"effective_priority": state.priority} if state.priority != state.work.priority else {}),
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
