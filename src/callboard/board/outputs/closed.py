"""Which Claims of a run had ended before it began, as its host tells it and its commands read it.

Source: specification 1, §7.14 (members may be ineligible one by one), §7.18. News for whoever works
in the run, beside the assignment, which stays as it was granted. Nothing is decided by it: what a
Claim may still do is judged from the ledger alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from callboard import canonical
from callboard.board.protocol.commit import AssignedClaim, Assignment
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Identity, ReasonCode
from callboard.regular import read_regular
from callboard.validate import parse
from callboard.visible import visible

MAX_CLOSED_BYTES = 64 * 1024
_MOST_CLAIMS = 16


class ClosedClaim(Record, frozen=True, kw_only=True):
    """One member that had ended already: how, and the reason that is on the record."""

    handle: Identity
    claim_id: Identity
    work_id: Identity
    state: Literal["completed", "cancelled"]
    reason: ReasonCode

    def text(self) -> str:
        """One line for people."""
        return visible(f"{self.handle} was {self.state} before this run began ({self.reason})")


class ClosedClaims(Record, frozen=True, kw_only=True):
    """The members that had ended when the run was bound, in the order of the assignment."""

    closed: Annotated[list[ClosedClaim], Meta(max_length=_MOST_CLAIMS)]

    def of(self, handle: str) -> ClosedClaim | None:
        """The closed member with that handle; None where it was open."""
        return next((one for one in self.closed if one.handle == handle), None)

    def open_members(self, assignment: Assignment) -> list[AssignedClaim]:
        """The members of the assignment that were open."""
        return [one for one in assignment.claims if self.of(one.handle) is None]


NONE_CLOSED = ClosedClaims(closed=[])


def closed_bytes(claims: ClosedClaims) -> bytes:
    """The file's content."""
    return canonical.encode(claims) + b"\n"


def read_closed(path: Path) -> ClosedClaims:
    """The file that the host wrote for the run.

    Raises `claims_invalid`, `file_missing`, `file_not_regular`, `file_unreadable` or a codec code.
    """
    data = read_regular(
        str(path), MAX_CLOSED_BYTES, what="the list of claims", code="claims_invalid"
    )
    value = canonical.decode(data, limit_bytes=MAX_CLOSED_BYTES)
    return parse(ClosedClaims, value, what="list of claims", code="claims_invalid")
