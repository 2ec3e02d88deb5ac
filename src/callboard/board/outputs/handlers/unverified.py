"""The one refusal of an output that does not read back as it was described."""

from __future__ import annotations

from callboard.errors import CallboardError


def unverified(what: str, found: str) -> CallboardError:
    """`output_unverified`: `what` was looked at, `found` says what is there instead."""
    return CallboardError(
        "output_unverified",
        f"{what} {found}",
        "it was not delivered, or was changed since; look at it with git show-ref",
    )
