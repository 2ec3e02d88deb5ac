"""The byte envelope of a ledger: what is written, and what closing the rest may still need.

Source: specification 1, §7.17; wire-v3 §7. Sums are kept running by the projection; this only
compares.
"""

from __future__ import annotations

from callboard.board.projection import reserve
from callboard.board.projection.state import Projection
from callboard.board.protocol.operations import Observation, Operation
from callboard.board.protocol.scalars import is_github
from callboard.errors import CallboardError

MAX_REFRESHES = 255
GRANT_LINE_BYTES = 8192
"""What the line of a grant of one Claim takes at most, names at full length."""


def check_budget(projection: Projection, *, admission: bool, operations: list[Operation]) -> None:
    """Refuse a commit, already applied, that leaves too little room: `ledger_limit`."""
    limits = projection.policy.limits
    written, kept = projection.ledger_bytes, projection.reserve_bytes
    whole = limits.ledger_bytes + limits.recovery_bytes
    if written + kept > whole:
        raise _refuse(
            projection,
            f"{written} ledger bytes and {kept} reserved for closure exceed {whole}",
            "ledger_bytes + recovery_bytes",
        )
    if written > limits.ledger_bytes and (
        admission or any(isinstance(operation, Observation) for operation in operations)
    ):
        raise _refuse(
            projection,
            f"{written} ledger bytes exceed the admission watermark {limits.ledger_bytes}",
            "ledger_bytes",
        )
    if admission and kept > limits.recovery_bytes and _has_github(projection):
        raise _refuse(
            projection,
            f"{kept} bytes reserved for closure exceed {limits.recovery_bytes}",
            "recovery_bytes",
        )


def _has_github(projection: Projection) -> bool:
    return any(
        is_github(profile.workflow)
        for pool in projection.policy.pools.values()
        for profile in pool.profiles.values()
    )


def _refuse(projection: Projection, what: str, limit: str) -> CallboardError:
    counters = projection.counters
    unsettled = counters.available + counters.claimed + counters.pending_delivery
    hint = (
        "let open Work settle or cancel it, submit less at once; a board begun with fewer "
        "retry.max_attempts keeps less in reserve"
    )
    if 2 * projection.ledger_bytes > projection.policy.limits.ledger_bytes:
        hint = f"make the log smaller: callboard ledger checkpoint --apply; {hint}"
    return CallboardError(
        "ledger_limit",
        f"{what}, with {unsettled} open Work and {counters.unreleased} unreleased dispatches",
        hint,
        {
            "limit": limit,
            "ledger_bytes": projection.ledger_bytes,
            "reserve_bytes": projection.reserve_bytes,
            "open_work": unsettled,
            "unreleased_dispatches": counters.unreleased,
        },
    )


def check_room_to_grant(projection: Projection) -> None:
    """Refuse new Work, already applied, that would leave a board at rest without room for a grant.

    A writer's own care, no rule of the protocol: readers take such a ledger. A board with runs
    under way gets room back when they are released. Raises `ledger_limit`.
    """
    if projection.counters.unreleased:
        return
    limits = projection.policy.limits
    written, kept = projection.ledger_bytes, projection.reserve_bytes
    group = max(reserve.of_new_dispatch(one, limits) for one in projection.policy.pools.values())
    rooms = [
        (limits.ledger_bytes - written, GRANT_LINE_BYTES),
        (limits.ledger_bytes + limits.recovery_bytes - written - kept, group + GRANT_LINE_BYTES),
    ]
    if _has_github(projection):
        rooms.append((limits.recovery_bytes - kept, group))
    for free, needed in rooms:
        if free < needed:
            raise _refuse(
                projection,
                f"{max(0, free)} bytes would be left, and the next grant needs {needed}",
                "room_to_grant",
            )


def refresh_budget(
    *,
    requested: int,
    operations: int,
    ledger_bytes: int,
    ledger_limit: int,
    grants_paused: bool = False,
) -> int:
    """How many observations one dispatch_next may refresh beside at least one Claim.

    `requested` must be 0..255, else `ledger_invalid`.
    """
    if not 0 <= requested <= MAX_REFRESHES:
        raise CallboardError(
            "ledger_invalid",
            f"a refresh budget of {requested} is outside 0..{MAX_REFRESHES}",
            "ask for fewer observations",
            {"requested": requested},
        )
    if grants_paused or ledger_bytes >= ledger_limit:
        return 0
    return min(requested, operations - 1)
