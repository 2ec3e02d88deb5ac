"""Which Work stands in for which: delivery-failed nodes and their replacements.

Source: specification 1, §7.15. Lineage is told, never a dependency: no edge is rewired by it, and
nothing becomes ready. The format lets a node have several replacements; of those that were not
cancelled the latest counts.
"""

from __future__ import annotations

from callboard.board.projection.entities import WorkState
from callboard.board.projection.state import Projection
from callboard.board.protocol.operations import Replacement


class Lineage:
    """The replacements of one state of the board, looked up once."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._standing: dict[str, WorkState] = {}
        for state in projection.works.values():
            origin = state.work.replacement_of
            if not isinstance(origin, Replacement) or state.state == "cancelled":
                continue
            known = self._standing.get(origin.work_id)
            if known is None or known.place < state.place:
                self._standing[origin.work_id] = state

    def replacement(self, work_id: str) -> WorkState | None:
        """What stands in for a Work, whatever became of that; None where nothing does."""
        return self._standing.get(work_id)

    def latest(self, work_id: str) -> WorkState | None:
        """The end of the chain of replacements; None where the Work has none."""
        found = self._standing.get(work_id)
        # Each replacement was admitted after the Work it names had failed, so no chain is a circle.
        while found is not None and (later := self._standing.get(found.work.work_id)) is not None:
            found = later
        return found

    def blocked(self, work_id: str) -> list[str]:
        """Every waiting descendant of a Work, nearest first: each stays blocked while it failed."""
        found: dict[str, None] = {}
        layer = [work_id]
        while layer:
            step = [one for parent in layer for one in self._projection.dependents.get(parent, ())]
            layer = list(dict.fromkeys(one for one in step if one not in found))
            found.update(dict.fromkeys(layer))
        works = self._projection.works
        return [one for one in found if works[one].state == "available"]
