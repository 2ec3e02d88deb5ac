"""The project's time: taking it back to the database's clock, where that was far ahead once.

Only a person orders this. Elsewhere a project's time never goes back.
"""

from __future__ import annotations

from callboard.clock import utc_text
from callboard.errors import CallboardError
from callboard.project import queries, schema
from callboard.project.answers import ClockRepaired
from callboard.project.queries.claims import has_lapsed
from callboard.project.records import Claim
from callboard.project.unit import Unit


def repair(unit: Unit, reason: str) -> ClockRepaired:
    """Let time go on from where the database's clock is, which is before the last change.

    This change, and it alone, happens earlier than the one before it; numbers and revisions go on
    as ever. Claims stay who holds what, under their ids and fences. Their ends move with the time:

    - A live claim has left what it had left a moment ago, and lapses that long from now: never
      longer than the time to live it was given. Its holder, who got it in the wrong time, counts on
      no more, as time only stood still since. One that is older lost the leap of the clock when it
      happened, and does not get it back.
    - A lapsed one stays lapsed: an end that would lie ahead again becomes now.
    - One without an end has none.

    What was acquired later than now counts as acquired now; its event keeps the time that was told.
    """
    before_ms, after_ms = unit.now_ms, max(unit.machine_ms, 1)
    if before_ms <= after_ms:
        raise CallboardError(
            "clock_not_behind",
            f"the clock says {utc_text(after_ms)}, which is not before the project's time; nothing "
            "was changed",
            "there is nothing to repair; `callboard project doctor` tells if there is",
            {"now_ms": before_ms, "clock_ms": after_ms},
        )
    open_claims = queries.open_claims(unit)
    unit.turn_back()
    moved = sum(_move(unit, claim, before_ms) for claim in open_claims)
    event = unit.event(
        "project.clock_repaired",
        {
            "before_ms": before_ms,
            "after_ms": after_ms,
            "moved_claims": moved,
            "reason": reason,
        },
    )
    return ClockRepaired(
        project_revision=unit.revision,
        before_ms=before_ms,
        after_ms=after_ms,
        moved_claims=moved,
        event=event,
    )


def _move(unit: Unit, claim: Claim, before_ms: int) -> bool:
    """Take one claim along to the earlier time; tells whether its end is another one now."""
    end, acquired = claim.expires_at_ms, min(claim.acquired_at_ms, unit.now_ms)
    if end is not None:
        lapsed = has_lapsed(end, before_ms)
        end = min(end, unit.now_ms) if lapsed else unit.now_ms + end - before_ms
        # No claim ends before it began, nor at once.
        acquired = min(acquired, end - 1)
    unit.change(
        schema.claims,
        {"id": claim.id, "state": "active"},
        acquired_at_ms=acquired,
        expires_at_ms=end,
    )
    return end != claim.expires_at_ms
