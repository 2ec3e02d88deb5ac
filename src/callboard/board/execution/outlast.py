"""Outlasting what keeps a board from being written: a full disk, a lock, a branch that is gone, a
remote that takes nothing.

For the binding of a run, and for its end, whose outcome would be lost otherwise. It repeats one
act until it is judged or patience ends; it never decides what to do instead, and never repeats what
was judged.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from callboard.board.storage.refusals import UNWRITABLE
from callboard.errors import CallboardError

PATIENCE_S = 3_600.0
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0
PASSING = UNWRITABLE | {"ledger_invalid", "contention"}
"""Codes with which a board cannot be written, and can once a person has put it right."""
_T = TypeVar("_T")


def outlast(
    act: Callable[[], _T], on_wait: Callable[[CallboardError], None], patience_s: float = PATIENCE_S
) -> _T:
    """What `act` answers, tried again for `patience_s` where the board cannot be read or written.

    `act` must be one that may be repeated. `on_wait` hears of each refusal that it has not heard of
    before. Raises the last refusal when patience ends, and any other at once.
    """
    deadline_s = time.monotonic() + patience_s
    pause_s, heard = FIRST_PAUSE_S, set[str]()
    while True:
        try:
            return act()
        except CallboardError as error:
            if not _is_passing(error) or time.monotonic() + pause_s >= deadline_s:
                raise
            if error.code not in heard:
                heard.add(error.code)
                on_wait(error)
        _pause(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _is_passing(error: CallboardError) -> bool:
    """A refused push is one, but not where this clone's cut history may be why: that stays."""
    if error.code == "push_refused":
        return not error.details.get("shallow")
    return error.code in PASSING


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)
