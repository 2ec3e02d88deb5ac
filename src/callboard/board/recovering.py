"""The part of the façade by which somebody looks after what is under way, and grants nothing.

It asks hosts and the board's own recovery; what counts is what they leave on the record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from callboard.board.administering import Administration

if TYPE_CHECKING:
    from callboard.board.execution.recovery import Found, Stopped


class Recovering(Administration):
    """What a person may have looked into on the board of `site`."""

    def reconcile(
        self,
        environment: Mapping[str, str],
        *,
        start: bool = True,
        watch: bool = False,
        stop: threading.Event,
        on_found: Callable[[Found], None],
    ) -> list[Found]:
        """Find out what became of open launches and deliveries; see `recovery.reconcile`."""
        from callboard.board.execution import recovery

        if self.history().projection.tip is None:
            return []
        return recovery.reconcile(
            self.site, environment, start=start, watch=watch, stop=stop, on_found=on_found
        )

    def stop_run(self, dispatch_id: str) -> Stopped:
        """Ask for the end of the run of a dispatch; see `recovery.stop_run`."""
        from callboard.board.execution import recovery

        return recovery.stop_run(self.site, dispatch_id)
