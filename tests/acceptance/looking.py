"""A look at what is open on a board, as a reconciler takes it; nothing new is started by it."""

from __future__ import annotations

import os
import threading

from callboard.board.board import Board
from callboard.clock import FixedClock, SystemClock
from tests.system.world import World


def look(world: World, *, by_ms: int = 0) -> list[str]:
    """What one look finds, so much later."""
    clock = FixedClock(SystemClock().now_ms() + by_ms)
    with Board.open(world.path, world.folders, clock=clock) as board:
        found = board.reconcile(
            os.environ, start=False, stop=threading.Event(), on_found=lambda _found: None
        )
    return [one.word for one in found]
