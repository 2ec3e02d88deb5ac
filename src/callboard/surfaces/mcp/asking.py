"""`work_queue_submit` and `work_queue_dispatch_next`: wishes for the board itself, staged.

Source: specification 1, §§7.9, 7.12. Neither names who is to be granted: there is no field for a
node, a filter or a tenant, and none for authority.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from callboard import canonical
from callboard.surfaces.mcp.answers import Document
from callboard.surfaces.mcp.arguments import Handle
from callboard.surfaces.mcp.closed import Arguments
from callboard.surfaces.mcp.handing_over import selected, staged
from callboard.surfaces.mcp.session import Session

_PLAN = (
    "The plan, as a plan file has it: graph, and nodes with key, payload, and where wanted after, "
    "profile, contract, priority and fairness_key."
)


class SubmitArguments(Arguments, frozen=True, kw_only=True):
    """A plan to post."""

    plan: Annotated[dict[str, Any], Meta(description=_PLAN)]
    claim_handle: Handle = UNSET


class DispatchArguments(Arguments, frozen=True, kw_only=True):
    """How large a batch to ask for, at most."""

    max_claims: (
        Annotated[int, Meta(ge=1, le=256, description="At most so many Claims (1).")] | UnsetType
    ) = UNSET
    max_dispatches: (
        Annotated[int, Meta(ge=1, le=256, description="At most so many launches (1).")] | UnsetType
    ) = UNSET
    pool: (
        Annotated[str, Meta(max_length=256, description="The pool; one's own if left out.")]
        | UnsetType
    ) = UNSET
    claim_handle: Handle = UNSET


def submit(session: Session, arguments: SubmitArguments, raw: Mapping[str, Any]) -> Document:
    """Stage a plan."""
    return staged(session.asker().submit(canonical.encode(arguments.plan), selected(raw)))


def dispatch_next(
    session: Session, arguments: DispatchArguments, raw: Mapping[str, Any]
) -> Document:
    """Stage the wish for the next fair batch."""
    claims, launches, pool = arguments.max_claims, arguments.max_dispatches, arguments.pool
    return staged(
        session.asker().dispatch_next(
            claims if isinstance(claims, int) else 1,
            launches if isinstance(launches, int) else 1,
            pool if isinstance(pool, str) else None,
            selected(raw),
        )
    )
