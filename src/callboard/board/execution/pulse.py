"""Waiting until a board may have changed, for everybody who looks after one in a loop.

It sleeps on events of this clone and on a stop, and asks a remote only once in a while.
"""

from __future__ import annotations

import threading

from callboard.board.execution.site import Site

POLL_S = 0.05
IDLE_POLL_S = 0.25
FAR_POLL_S = 1.0


def wait_for_change(site: Site, stop: threading.Event) -> None:
    """Return when the tip moves, a little while passes, or `stop` is set.

    A remote is asked once in a while; what others in this clone see of it counts at once.
    """
    store = site.store
    revision, wait_s = store.glimpse(), FAR_POLL_S if store.is_far else IDLE_POLL_S
    for _look in range(max(1, int(wait_s / POLL_S))):
        if stop.wait(POLL_S) or store.glimpse() != revision:
            return
