"""Bytes: what the ledger holds, what must stay free for closing what is open.

The reserve is summed again over everything each time it is asked for.
"""

from .canon import Doc, Refused
from .shapes import on_github


def work_reserve(policy: Doc, work: Doc) -> int:
    """Bytes kept for bringing one Work to its end."""
    evidence = policy["limits"]["evidence_bytes"]
    result = policy["limits"]["result_bytes"]
    closing = 2 * result + 2 * evidence + 8192
    if work["state"] == "completed":
        return closing if work["barrier"] == "pending" else 0
    if work["state"] == "cancelled":
        return 0
    left = policy["pools"][work["pool"]]["retry"]["max_attempts"] - work["attempts"]
    held = 8192 if work["state"] == "claimed" else 0
    return int(left * (4 * evidence + 8192) + closing + held)


def dispatch_reserve(policy: Doc, dispatch: Doc) -> int:
    """Bytes kept for bringing one worker group to its release."""
    if dispatch["released"]:
        return 0
    evidence = policy["limits"]["evidence_bytes"]
    most = policy["pools"][dispatch["pool"]]["reconciliation"]["max_attempts"] + 4
    left = max(0, most - dispatch["lifecycle_writes"])
    return int(left * (2 * evidence + 12288) + 2 * evidence + 8192)


def reserve(tables: Doc) -> int:
    """Bytes kept for everything that is open."""
    policy = tables["policy"]
    total = 0
    for work in tables["works"].values():
        total += work_reserve(policy, work)
    for dispatch in tables["dispatches"].values():
        total += dispatch_reserve(policy, dispatch)
    return total


def any_github(policy: Doc) -> bool:
    """Whether any profile of the Policy is a GitHub workflow."""
    return any(
        on_github(profile)
        for pool in policy["pools"].values()
        for profile in pool["profiles"].values()
    )


def check_bytes(tables: Doc, operations: list[Doc]) -> None:
    """Refuse a commit that leaves the board without room to close what is open."""
    limits = tables["policy"]["limits"]
    ledger, kept = tables["ledger_bytes"], reserve(tables)
    if ledger + kept > limits["ledger_bytes"] + limits["recovery_bytes"]:
        raise Refused("ledger_limit", "no room left for closing")
    kinds = {op["kind"] for op in operations}
    if kinds & {"Work", "Claim", "Observation"} and ledger > limits["ledger_bytes"]:
        raise Refused("ledger_limit", "past the ordinary budget")
    bound = bool(kinds & {"Work", "Claim"}) and any_github(tables["policy"])
    if bound and kept > limits["recovery_bytes"]:
        raise Refused("ledger_limit", "the recovery budget is spoken for")
