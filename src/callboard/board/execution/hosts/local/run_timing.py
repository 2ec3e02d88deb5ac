"""How long a run's shared set-up and its work took, and how long each Claim waited for them.

Measured by the supervisor, kept in the run's report and read back for people: no evidence, and
nothing is decided by it. Lengths in ms; what is not known is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from callboard.board.execution.hosts.local.ending import Ending
from callboard.board.projection.entities import ClaimState
from callboard.board.reading.timing import timing_facts


def timing(ending: Ending, claims: Iterable[ClaimState]) -> dict[str, object]:
    """What the report says of times: `{shared_by, setup_ms, worker_ms, waits}`.

    `claims` are those that were open when the run was bound, which shared its set-up. In `waits`
    stands for each `{claim_handle, claim_id, waited_ms}`, from its grant to the worker's start, by
    the board's time and this machine's.
    """
    commands = {str(one["command"]): one for one in ending.commands}
    members = list(claims)
    found: dict[str, object] = {"shared_by": len(members)}
    for name in ("setup", "worker"):
        if name in commands:
            found[f"{name}_ms"] = commands[name]["duration_ms"]
    began_ms = commands.get("worker", {}).get("began_ms")
    if isinstance(began_ms, int):
        found["waits"] = [
            {
                "claim_handle": one.claim.handle,
                "claim_id": one.claim.claim_id,
                # The clocks of two machines may differ by more than a run takes to start.
                "waited_ms": max(0, began_ms - one.at),
            }
            for one in members
        ]
    return found


def read_timing(report: dict[str, Any], claim_id: str | None = None) -> dict[str, int]:
    """`{setup_ms, worker_ms, shared_by}` as far as a report has them, of one Claim `waited_ms` too.

    A report may be damaged or of another shape: what is no length of time is left out.
    """
    found = timing_facts(report)
    waits = report.get("waits")
    for one in waits if isinstance(waits, list) else ():
        if isinstance(one, dict) and claim_id is not None and one.get("claim_id") == claim_id:
            found |= timing_facts(one)
    return found
