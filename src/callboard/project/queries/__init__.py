"""All SQL of the wing, by what is asked for; beside it only `unit` and `store` make statements.

Rows become records here. Only `projection` and `whole.first_rows` write, and nothing begins or
ends a transaction. Each function takes the scope of one project, and asks for its rows alone.
"""

from callboard.project.queries.branches import branch, branch_twin, branches, selected_branch
from callboard.project.queries.claims import claim, claim_on, claims_of, last_fence, open_claims
from callboard.project.queries.history import events, evidence, history
from callboard.project.queries.places import next_position
from callboard.project.queries.readiness import (
    all_completed,
    claims_on,
    completed,
    completed_count,
    likely_ready,
    open_work,
    work_by_keys,
)
from callboard.project.queries.rows import has_selection, raw_texts
from callboard.project.queries.sessions import last_checkpoint, session, sessions, successor
from callboard.project.queries.whole import counts, is_carried_out, lapsed, receipt
from callboard.project.queries.work import (
    loose_dependencies,
    sources,
    work_exists,
    work_item,
    work_items,
    work_twin,
)

__all__ = [
    "all_completed",
    "branch",
    "branch_twin",
    "branches",
    "claim",
    "claim_on",
    "claims_of",
    "claims_on",
    "completed",
    "completed_count",
    "counts",
    "events",
    "evidence",
    "has_selection",
    "history",
    "is_carried_out",
    "lapsed",
    "last_checkpoint",
    "last_fence",
    "likely_ready",
    "loose_dependencies",
    "next_position",
    "open_claims",
    "open_work",
    "raw_texts",
    "receipt",
    "selected_branch",
    "session",
    "sessions",
    "sources",
    "successor",
    "work_by_keys",
    "work_exists",
    "work_item",
    "work_items",
    "work_twin",
]
