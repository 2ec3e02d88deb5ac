"""How often and for how long a process looks for evidence that does not come.

Source: specification 1, §§7.8, 7.15. Looks are bounded by the policy's attempts and its deadline,
with pauses that grow; running out of them is reported and frees nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from callboard.board.protocol.policy import Reconciliation


@dataclass(frozen=True, slots=True)
class _Looked:
    times: int
    last_ms: int
    is_last: bool = False


Pause = Callable[[Reconciliation, int], int]
"""How long to wait, in ms, after that many looks."""


class Patience:
    """Counts one process's looks at each thing that is in doubt. Times are Unix ms.

    `pause` says how long to wait after that many looks, in ms; see `pause_ms`.
    """

    def __init__(self, pause: Pause | None = None) -> None:
        self._looked: dict[str, _Looked] = {}
        self._pause = pause or pause_ms

    def is_due(self, thing: str, bounds: Reconciliation, now_ms: int) -> bool:
        """Whether it is time for another look. A clock that was set back makes one due."""
        looked = self._looked.get(thing)
        if looked is None:
            return True
        if looked.is_last:
            return False
        return not 0 <= now_ms - looked.last_ms < self._pause(bounds, looked.times)

    def count(self, thing: str, now_ms: int) -> int:
        """Take note of a look without success; answers how many there were."""
        looked = self._looked.get(thing)
        times = 1 if looked is None else looked.times + 1
        self._looked[thing] = _Looked(times, now_ms)
        return times

    def stop(self, thing: str) -> None:
        """Look no more: only somebody who asks anew does."""
        self._looked[thing] = _Looked(0, 0, is_last=True)

    def forget(self, thing: str) -> None:
        """Begin anew, once there was evidence."""
        self._looked.pop(thing, None)


def pause_ms(bounds: Reconciliation, times: int) -> int:
    """How long to wait after that many looks: each time twice as long, so that the looks of one
    process fill the deadline."""
    doublings = min(times, bounds.max_attempts) - 1
    shares = (1 << max(1, bounds.max_attempts - 1)) - 1
    return (bounds.deadline_ms << doublings) // shares
