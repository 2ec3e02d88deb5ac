"""The log of `callboard run`: each recorded fact as one line for a person.

A failed attempt says why, as far as this host can tell. Wording only; the codes stand on the board.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callboard.board.board import Board
from callboard.board.ledger.finish import ATTEMPTS_EXHAUSTED
from callboard.board.reading.attempts import claim_document
from callboard.board.reading.names import Names
from callboard.surfaces.cli.render import clock, count
from callboard.surfaces.cli.words import conclusion_text, short_failure

if TYPE_CHECKING:
    from callboard.board.execution.run_events import RunEvent

_WORDS = {
    "claim_cancelled": "failed",
    "work_cancelled": "ended",
    "delivery_failed": "not delivered",
}
_WIDTH = max(len("not delivered"), len("unresolved"))


class EventLines:
    """Words the events of one run of the board; the names are looked up once for each growth."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._names: Names | None = None
        self._known = -1

    def line(self, event: RunEvent) -> str:
        """`10:11:32  failed  build  (exit 7, again at 10:12:02)`."""
        word, said = self._said(event)
        line = f"{self._clock(event.at_ms)}  {word:<{_WIDTH}}  {self._subject(event)}"
        return f"{line}  ({said})" if said else line

    def _said(self, event: RunEvent) -> tuple[str, str]:
        details: dict[str, Any] = event.details
        reason = str(details.get("reason", ""))
        if event.kind == "claim_cancelled":
            return "failed", self._failure(event)
        if event.kind == "work_cancelled" and reason == ATTEMPTS_EXHAUSTED:
            return "gave up", f"after {count(details['attempts'], 'attempt')}"
        if event.kind == "waiting":
            more = f", {details['others']} more later" if details["others"] else ""
            return "waiting", f"tried again at {self._clock(details['until_ms'])}{more}"
        if event.kind == "checkpointed":
            return "checkpointed", f"{count(details['commits'], 'commit')} in one line"
        if event.kind == "released":
            conclusion = str(details.get("conclusion", ""))
            return "released", "" if conclusion == "success" else conclusion_text(conclusion)
        return _WORDS.get(event.kind, event.kind), reason

    def _failure(self, event: RunEvent) -> str:
        projection = self._board.history().projection
        claim = projection.claims[str(event.details["claim_id"])]
        document = claim_document(projection, claim)
        if "run_id" in document:
            ending = self._board.host.ending(document["run_id"], document["claim_id"])
            document["ending"] = ending
        again = event.details.get("retry_not_before")
        later = f", again at {self._clock(again)}" if isinstance(again, int) else ""
        return short_failure(document) + later

    def _clock(self, at_ms: int) -> str:
        return clock(at_ms, self._board.site.clock.now_ms())

    def _subject(self, event: RunEvent) -> str:
        work_id = event.details.get("work_id")
        if isinstance(work_id, str):
            return self._label(work_id)
        projection = self._board.history().projection
        dispatch = projection.dispatches.get(str(event.details.get("dispatch_id", "")))
        members = [] if dispatch is None else dispatch.assignment.claims
        return ", ".join(self._label(one.work_id) for one in members)

    def _label(self, work_id: str) -> str:
        projection = self._board.history().projection
        if self._names is None or self._known != len(projection.works):
            self._names, self._known = Names(projection), len(projection.works)
        return self._names.label(work_id)
