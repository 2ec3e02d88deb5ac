"""A view: one validated history, looked at from one time, with where it came from.

Source: specification 1, §7.13; wire-v3 §10 (reads). Every answer carries the view's stamp. It
must never be taken for authority: a grant is decided anew against the tip it meets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from callboard.board.ledger.history import History
from callboard.board.projection.state import Projection
from callboard.errors import CallboardError

Provenance = Literal["live", "snapshot", "staged"]
Document = dict[str, Any]


def known(**facts: Any) -> Document:
    """The facts that are there: a None says nothing and is left out."""
    return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True, slots=True)
class View:
    """A history at `at_ms` (Unix ms); `live` is the branch tip, `snapshot` a file's content."""

    history: History
    at_ms: int
    provenance: Provenance = "live"

    @property
    def projection(self) -> Projection:
        return self.history.projection

    def with_history(self) -> View:
        """The view itself, or `queue_missing` where the board has no history yet."""
        if self.projection.tip is None:
            raise no_history()
        return self

    def stamp(self) -> Document:
        """`{tip, evaluated_at_ms, provenance}`; the tip is None before the first commit."""
        return {
            "tip": self.projection.tip,
            "evaluated_at_ms": self.at_ms,
            "provenance": self.provenance,
        }


def no_history() -> CallboardError:
    """What is said of a board that nobody has posted to."""
    return CallboardError(
        "queue_missing",
        "the board has no history yet",
        "post a first plan: callboard submit FILE",
    )


def commit_at(projection: Projection, ordinal: int) -> str:
    """The id of the commit at a place in the chain."""
    for number, commit_id in enumerate(projection.commit_ids):
        if number == ordinal:
            return commit_id
    raise IndexError(ordinal)
