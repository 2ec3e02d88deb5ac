"""What every transition may know of the commit it is part of, and how it looks things up.

A look-up answers a typed state or refuses with a code that names the unknown identity.
"""

from __future__ import annotations

from msgspec import Struct

from callboard.board.projection.entities import ClaimState, DispatchState, WorkState
from callboard.board.projection.state import Projection
from callboard.board.protocol.commit import QueueCommit
from callboard.board.protocol.operations import Evidence
from callboard.canonical import encode_trusted
from callboard.errors import CallboardError

POSITION_BITS = 8
"""A place is `ordinal << POSITION_BITS | operation index`: 256 operations a commit."""


class Context(Struct, frozen=True, gc=False):
    """The commit that is being applied and its place in the chain."""

    commit: QueueCommit
    ordinal: int

    @property
    def at(self) -> int:
        """The decision time, Unix ms."""
        return self.commit.at

    def place(self, index: int) -> int:
        """The FIFO place of the operation at `index`."""
        return self.ordinal << POSITION_BITS | index


def work_of(projection: Projection, work_id: str) -> WorkState:
    """The Work, or `work_unknown`."""
    state = projection.works.get(work_id)
    if state is None:
        raise CallboardError(
            "work_unknown", f"there is no Work {work_id}", "list the board: callboard status"
        )
    return state


def claim_of(projection: Projection, claim_id: str) -> ClaimState:
    """The Claim, or `claim_unknown`."""
    state = projection.claims.get(claim_id)
    if state is None:
        raise CallboardError(
            "claim_unknown", f"there is no Claim {claim_id}", "list the board: callboard status"
        )
    return state


def dispatch_of(projection: Projection, dispatch_id: str) -> DispatchState:
    """The dispatch, or `dispatch_unknown`."""
    state = projection.dispatches.get(dispatch_id)
    if state is None:
        raise CallboardError(
            "dispatch_unknown",
            f"there is no dispatch {dispatch_id}",
            "list the board: callboard status",
        )
    return state


def claim_on(projection: Projection, claim_id: str, work_id: str) -> tuple[ClaimState, WorkState]:
    """A Claim together with its Work; `claim_mismatch` where they do not belong together."""
    claim = claim_of(projection, claim_id)
    if claim.claim.work_id != work_id:
        raise CallboardError(
            "claim_mismatch",
            f"Claim {claim_id} is on Work {claim.claim.work_id}, not {work_id}",
            "name the Claim's own Work",
        )
    return claim, work_of(projection, work_id)


def require_open(claim: ClaimState) -> None:
    """Refuse a Claim that has ended: `claim_closed`."""
    if claim.state != "open":
        raise CallboardError(
            "claim_closed",
            f"Claim {claim.claim.claim_id} is {claim.state}",
            "a Claim ends once; see callboard trace",
            {"state": claim.state},
        )


def check_bytes(projection: Projection, value: Evidence | dict[str, object], limit: str) -> None:
    """Refuse a record part that is larger than the policy's limit of that name."""
    allowed = int(getattr(projection.policy.limits, limit))
    size = len(encode_trusted(value))
    if size > allowed:
        raise CallboardError(
            limit.replace("_bytes", "_limit"),
            f"{size} bytes where {limit} allows {allowed}",
            f"shorten it to {allowed} bytes of canonical JSON",
            {"bytes": size, "limit_bytes": allowed},
        )
