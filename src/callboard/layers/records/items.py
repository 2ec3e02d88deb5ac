"""A piece of work as the parent's ledger `work_items.md` has it, and the request it comes to.

Source: specification 3; layers.md §2. The ledger may change at any time; nothing may rely on its
bytes.
"""

from __future__ import annotations

from typing import Literal

from callboard.layers.records.base import Key, Name, Record, Ref, Text
from callboard.layers.records.requests import ChildScope

ItemStatus = Literal[
    "open",
    "selected",
    "waiting_for_child",
    "ready_for_review",
    "accepted",
    "rework",
    "blocked",
]


class ItemFields(Record, frozen=True, kw_only=True):
    """The fields in the fenced block of one item."""

    status: ItemStatus
    scope: ChildScope | None = None
    workflow_set: Name = "inner_outer_eval"
    decisions: tuple[Ref, ...] = ()
    evidence: tuple[Ref, ...] = ()
    inputs: tuple[Ref, ...] = ()
    request_id: Key | None = None
    request_path: Text | None = None
    supersedes: Key | None = None
    outcome_ref: Ref | None = None
