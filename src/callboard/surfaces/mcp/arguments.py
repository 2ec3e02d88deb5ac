"""What the board's tools take: one closed record a tool.

The handle of a Claim is the exception: whatever is given reaches the one rule for selectors, which
alone tells what is absent from what is null or empty.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from callboard.board.outputs.messages import Outcome
from callboard.board.outputs.scope import SELECTOR
from callboard.board.reading.columns import Column
from callboard.surfaces.mcp.closed import Arguments, closed_schema

MAX_LIMIT = 200
_BODIES = "Also give payloads and Results, as far as they fit."
_CLAIM = (
    "The handle of the Claim meant, as the assignment has it. Leave it out only where the "
    "assignment has one Claim; null and an empty text are refused."
)
Handle = Annotated[Any, Meta(description=_CLAIM)]
Text = Annotated[str, Meta(max_length=512)]


class ReadArguments(Arguments, frozen=True, kw_only=True):
    """Which nodes to list."""

    column: Annotated[Column, Meta(description="Only nodes of this column.")] | UnsetType = UNSET
    pool: Annotated[Text, Meta(description="Only nodes of this pool.")] | UnsetType = UNSET
    limit: (
        Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="At most so many nodes (50).")]
        | UnsetType
    ) = UNSET
    cursor: (
        Annotated[str, Meta(max_length=512, description="The next_cursor of the page before.")]
        | UnsetType
    ) = UNSET
    bodies: Annotated[bool, Meta(description=_BODIES)] | UnsetType = UNSET


class ExplainArguments(Arguments, frozen=True, kw_only=True):
    """Which node to explain: by its id, or by a Claim of this run."""

    work_id: (
        Annotated[Text, Meta(description="A node's work_id, or 6 or more of its first digits.")]
        | UnsetType
    ) = UNSET
    claim_handle: Handle = UNSET
    bodies: Annotated[bool, Meta(description=_BODIES)] | UnsetType = UNSET


class FinishArguments(Arguments, frozen=True, kw_only=True):
    """How one Claim ended."""

    outcome: Annotated[
        Outcome, Meta(description="completed, or cancelled: then nothing of it is delivered.")
    ]
    claim_handle: Handle = UNSET


def schema_of(kind: type[Arguments], *, has_claims: bool) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments.

    Who holds no Claim is not shown how to name one; naming one is refused all the same.
    """
    found = closed_schema(kind)
    properties = found["properties"]
    if SELECTOR in properties:
        # What else is given for it is the rule's to refuse, with a code that says why.
        properties[SELECTOR] = {"type": "string", **properties[SELECTOR]}
        if not has_claims:
            del properties[SELECTOR]
    return found
