"""Draining: reconcile, and start nothing, until nothing is in flight on a board whose grants are
paused.

Source: specification 1, §§7.8, 7.10, 7.18. It never starts, ends or frees anything without proof: a
launch in doubt keeps the drain waiting, however long. Killed at any moment, the next one goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from callboard.board.execution.dispatcher import Dispatcher
from callboard.board.execution.pulse import wait_for_change
from callboard.board.execution.reconcile import Findings, Reconciler
from callboard.board.execution.site import Site
from callboard.board.publishing import lifecycle
from callboard.board.publishing.intents import Nothing
from callboard.board.reading.in_flight import InFlight
from callboard.board.reading.view import Document, View
from callboard.board.storage.remote_refusals import OUTAGES
from callboard.errors import CallboardError

HANDED_BACK = "drained"
# What delays a drain: the next pass meets another board, or another network.
_PASSING = OUTAGES | {"contention", "outcome_unknown"}

Ending = Literal["drained", "resumed", "timeout", "stopped"]


@dataclass(slots=True)
class Drained:
    """How a drain ended, on which view, with what is left in flight there.

    `handed_back` names the groups that were granted before the pause and can no longer start.
    `trouble` is the code that the last pass ended with, if it could not be made whole.
    """

    ending: Ending
    view: View
    left: list[Document]
    waited_ms: int = 0
    handed_back: list[Document] = field(default_factory=list)
    trouble: str | None = None


class Drain:
    """One process that waits until its board is drained."""

    def __init__(self, site: Site, environment: Mapping[str, str]) -> None:
        self._site = site
        self._reconciler = Reconciler(Dispatcher(site, environment))
        self._handed_back: list[Document] = []

    def run(
        self,
        *,
        timeout_s: float | None,
        stop: threading.Event,
        on_change: Callable[[Drained], None],
    ) -> Drained:
        """Go on until nothing is in flight, grants are resumed, time is up or `stop` is set.

        `on_change` gets each new state of what is waited for, the first one included. At least one
        pass is made.
        """
        began_s = time.monotonic()
        told: object = None
        while True:
            found = self._turn()
            waited_s = time.monotonic() - began_s
            found.waited_ms = int(waited_s * 1000)
            now = _told(found)
            if now != told:
                on_change(found)
            told = now
            if found.ending != "stopped" or stop.is_set():
                return found
            if timeout_s is not None and waited_s >= timeout_s:
                found.ending = "timeout"
                return found
            wait_for_change(self._site, stop)

    def _turn(self) -> Drained:
        """One pass, and the board after it; `stopped` where it is not drained yet."""
        findings, trouble = Findings(), None
        try:
            with self._site.publisher.steady():
                findings = self._reconciler.run_pass(lambda: False)
                self._hand_back()
        except CallboardError as error:
            if error.code not in _PASSING:
                raise
            trouble = error.code
        view, trouble = self._view(trouble)
        left = InFlight(view, findings.dispatches | findings.deliveries).all()
        ending: Ending = "stopped"
        if not view.projection.grants_paused:
            ending = "resumed"
        elif not left and trouble is None:
            ending = "drained"
        return Drained(ending, view, left, 0, list(self._handed_back), trouble)

    def _view(self, trouble: str | None) -> tuple[View, str | None]:
        """The board as it is now; where it cannot be asked, as it was last known."""
        publisher = self._site.publisher
        try:
            history = publisher.refresh()
        except CallboardError as error:
            if error.code not in _PASSING:
                raise
            history, trouble = publisher.known(), error.code
        return View(history, publisher.decision_time(history.projection)), trouble

    def _hand_back(self) -> None:
        """Give back what was granted before the pause and has no start marker, if attempts last."""
        publisher = self._site.publisher
        projection = publisher.refresh().projection
        # Names are counted once for all of them, and only where one is needed.
        in_flight = InFlight(View(publisher.known(), 0))
        for dispatch_id in list(projection.open_dispatches):
            state = projection.dispatches[dispatch_id]
            if state.state != "reserved" or not projection.grants_paused:
                continue
            described = in_flight.group(state)
            answer = publisher.publish(
                lifecycle.hand_back(dispatch_id, HANDED_BACK, self._site.actor("reconciler"))
            )
            if not isinstance(answer, Nothing) and not answer.replayed:
                kept = ("names", "work_count", "dispatch_id", "pool")
                self._handed_back.append({name: described[name] for name in kept})


def _told(found: Drained) -> object:
    """What makes one state of waiting another one for a person."""
    items = [
        (one["kind"], one["dispatch_id"], one["names"], one["stage"], one.get("finding"))
        for one in found.left
    ]
    return items, found.trouble, len(found.handed_back)
