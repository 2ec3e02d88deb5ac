"""A goal with its criteria as one JSON file, for whoever begins a tree. No file is touched."""

from __future__ import annotations

from typing import Any

from callboard.errors import CallboardError
from callboard.layers.records import base


class GoalFile(base.Record, frozen=True, kw_only=True):
    """What a tree is begun with; the lists are those of a goal contract."""

    goal: base.Text
    completion_criteria: base.Texts = ()
    stop_criteria: base.Texts = ()
    constraints: base.Texts = ()
    deliverables: base.Texts = ()
    required_evidence: base.Texts = ()

    def lists(self) -> dict[str, list[str]]:
        """The lists by their names."""
        found: dict[str, Any] = base.document(self)
        return {name: list(texts) for name, texts in found.items() if name != "goal"}


def read_goal_file(data: bytes) -> GoalFile:
    """The goal in a file's bytes. Raises `goal_invalid` with the place of the fault."""
    try:
        return base.read(data, GoalFile, "the goal")
    except CallboardError as error:
        raise CallboardError("goal_invalid", error.message, error.hint, error.details) from error
