"""Which Claim a message belongs to.

Source: specification 1, §7.14, the table of selectors. The one place that reads a selector; it
looks at the original assignment only, so that what was ambiguous stays so whatever has finished.
"""

from __future__ import annotations

from collections.abc import Mapping

from callboard import canonical
from callboard.board.protocol.commit import AssignedClaim, Assignment
from callboard.errors import CallboardError
from callboard.validate import show

SELECTOR = "claim_handle"


def resolve(assignment: Assignment, message: Mapping[str, canonical.Json]) -> AssignedClaim:
    """The member of `assignment` that the decoded `message` selects.

    Only an absent selector selects a sole member; null and "" are given and wrong. Raises
    `CallboardError` `claim_scope_required` or `claim_scope_invalid`, never a nearest match.
    """
    members = assignment.claims
    if SELECTOR not in message:
        if len(members) == 1:
            return members[0]
        raise CallboardError(
            "claim_scope_required",
            f"no claim is named, and this run has {len(members)}",
            f"name the claim that is meant; handles: {handles(assignment)}",
            {"handles": [member.handle for member in members]},
        )
    selector = message[SELECTOR]
    if isinstance(selector, str):
        for member in members:
            if member.handle == selector:
                return member
    raise CallboardError(
        "claim_scope_invalid",
        f"{show(selector)} is no claim of this run",
        f"handles: {handles(assignment)}",
        {"handles": [member.handle for member in members]},
    )


def handles(assignment: Assignment) -> str:
    """The assignment's handles, as hints show them."""
    return ", ".join(member.handle for member in assignment.claims)
