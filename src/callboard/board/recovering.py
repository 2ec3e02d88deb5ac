"""The part of the façade that looks after what is under way or has failed, and grants nothing.

It asks hosts and the board's own recovery; what counts is what they leave on the record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from callboard.board.administering import Administration
from callboard.board.publishing.replacement import Asking, Wish, failed_work
from callboard.board.publishing.verifier import Verifier, refuse_faulty
from callboard.board.reading.pauses import Pause

if TYPE_CHECKING:
    from callboard.board.execution.drain import Drained
    from callboard.board.execution.recovery import Found, Stopped
    from callboard.board.execution.replacing import Replaced


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

    def drain(
        self,
        environment: Mapping[str, str],
        *,
        reason: str = "drain",
        admission: bool = False,
        timeout_s: float | None = None,
        stop: threading.Event,
        on_change: Callable[[Drained], None],
        request_id: str | None = None,
    ) -> Drained:
        """Pause grants, or `admission` too, and reconcile until nothing is in flight (§7.18).

        A pause that stands is kept, and one that this made stays. See `Drain.run`; the pauses
        are the requests `<request_id>.grants` and `<request_id>.admission`.
        """
        from callboard.board.execution.drain import Drain

        identity = self._begin(request_id)
        asked: tuple[Pause, ...] = ("admission", "grants") if admission else ("grants",)
        for what in asked:
            self.set_paused(what, True, reason=reason, request_id=f"{identity}.{what}")
        drain = Drain(self.site, environment)
        return drain.run(timeout_s=timeout_s, stop=stop, on_change=on_change)

    def stop_run(self, dispatch_id: str) -> Stopped:
        """Ask for the end of the run of a dispatch; see `recovery.stop_run`."""
        from callboard.board.execution import recovery

        return recovery.stop_run(self.site, dispatch_id)

    def replace(
        self,
        environment: Mapping[str, str],
        wish: Wish,
        asking: Asking,
        *,
        request_id: str | None = None,
    ) -> Replaced:
        """Post a node in the place of one whose delivery failed (§7.15); a verifier that is asked
        for gets the variables of `environment` that its file names. See `Replacer.replace`."""
        from callboard.board.execution.replacing import Replacer

        identity = self._begin(request_id)
        head = self._head()
        projection = self.history().projection
        if projection.tip is not None and identity not in projection.requests:
            # What cannot be replaced moves no worker either.
            failed_work(projection, wish.work_id)
            self._follow(identity, self.site.actor("producer"))
        return Replacer(self.site, environment, head).replace(identity, wish, asking)

    def verifiers(self) -> dict[str, Verifier]:
        """The remediation verifiers that HEAD's commit registers. Raises `verifier_invalid` or
        `resource_limit` for a faulty file."""
        return refuse_faulty(self._head().verifiers())
