"""Receipts: what came of a request, for the actor who made it and for nobody else."""

from __future__ import annotations

from callboard.project import names, queries
from callboard.project.answers import ReceiptShown
from callboard.project.operations import lookup
from callboard.project.unit import Scope


def show(scope: Scope, request_id: str, actor: str) -> ReceiptShown:
    """The receipt of a request; that of another actor is not found."""
    found = queries.receipt(scope, request_id, actor)
    if found is None:
        lookup.missing(
            "request",
            request_id,
            f"no such request of {names.shown(actor)} was carried out, and what others asked for "
            "is shown to them alone; name the agent that made it, or ask again",
            actor=actor,
        )
    return ReceiptShown(project_revision=scope.revision, receipt=found)
