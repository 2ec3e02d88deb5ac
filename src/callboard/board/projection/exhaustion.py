"""Which Work of a group has no attempt left once its open Claim ends.

Source: specification 1, §7.4. It asks the state and changes nothing.
"""

from __future__ import annotations

from callboard.board.projection.entities import DispatchState
from callboard.board.projection.state import Projection


def spent_works(projection: Projection, state: DispatchState) -> list[str]:
    """The Work of a group's open Claims whose last attempt this is, in the group's order."""
    found = []
    for member in state.assignment.claims:
        if projection.claims[member.claim_id].state != "open":
            continue
        work = projection.works[member.work_id]
        if work.attempts >= projection.pool(work.work.pool).retry.max_attempts:
            found.append(member.work_id)
    return found
