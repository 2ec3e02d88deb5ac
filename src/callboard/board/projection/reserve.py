"""How many ledger bytes each open thing may still need to be closed properly.

Source: specification 1, §7.17; wire-v3 §7. Pure arithmetic over one value; the projection keeps
the running sum.
"""

from __future__ import annotations

from callboard.board.projection.entities import DispatchState, WorkState
from callboard.board.protocol.policy import Limits, Pool

_ENVELOPE_BYTES = 8192
_LIFECYCLE_BYTES = 12_288
_EXTRA_LIFECYCLE_WRITES = 4


def lifecycle_limit(pool: Pool) -> int:
    """How many Dispatch records one group may have (wire-v3 §6)."""
    return pool.reconciliation.max_attempts + _EXTRA_LIFECYCLE_WRITES


def of_work(state: WorkState, pool: Pool, limits: Limits) -> int:
    """Bytes kept for one Work's remaining attempts and delivery."""
    delivery = 2 * limits.result_bytes + 2 * limits.evidence_bytes + _ENVELOPE_BYTES
    if state.state == "completed":
        return delivery if state.barrier == "pending" else 0
    if state.state == "cancelled":
        return 0
    left = pool.retry.max_attempts - state.attempts
    attempts = left * (4 * limits.evidence_bytes + _ENVELOPE_BYTES)
    return attempts + delivery + (_ENVELOPE_BYTES if state.state == "claimed" else 0)


def of_dispatch(state: DispatchState, pool: Pool, limits: Limits) -> int:
    """Bytes kept for one group's remaining launch records and its Release."""
    if state.released:
        return 0
    return _of_launch(max(0, lifecycle_limit(pool) - state.lifecycle_writes), limits)


def of_new_dispatch(pool: Pool, limits: Limits) -> int:
    """Bytes that are kept for a group from its grant on."""
    return _of_launch(lifecycle_limit(pool), limits)


def _of_launch(writes_left: int, limits: Limits) -> int:
    evidence = 2 * limits.evidence_bytes
    return writes_left * (evidence + _LIFECYCLE_BYTES) + evidence + _ENVELOPE_BYTES
