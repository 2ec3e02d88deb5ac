"""Taking turns at a board among the processes of one host, so that none waits for ever.

A courtesy and no lock: whoever gets no turn, for want of time, rights or a file system that can
lock, goes ahead all the same, and compare and swap decides. Without it a writer that has just won
keeps winning, as it need not read again what it has itself written.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

LONGEST_WAIT_S = 5.0
_AT_THE_DOOR_S = 0.001
_IN_THE_QUEUE_S = 0.005


class Turnstile:
    """The turns at what `name` stands for; its files lie in `folder`, which may be missing.

    The kernel gives a turn back when its process dies.
    """

    def __init__(self, folder: Path, name: str) -> None:
        stem = "turn-" + hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._queue = folder / f"{stem}.queue"
        self._door = folder / f"{stem}.lock"

    @contextmanager
    def turn(self, wait_s: float) -> Iterator[None]:
        """Have a turn for the length of the block, after waiting `wait_s` seconds at most.

        Only the one who holds the queue may wait at the door. So whoever leaves and comes back
        finds somebody before him, where others have waited for some milliseconds.
        """
        door = self._reach_the_door(time.monotonic() + min(wait_s, LONGEST_WAIT_S))
        try:
            yield
        finally:
            if door is not None:
                os.close(door)

    def _reach_the_door(self, deadline: float) -> int | None:
        queue = _take(self._queue, deadline, _IN_THE_QUEUE_S)
        if queue is None:
            return None
        try:
            return _take(self._door, deadline, _AT_THE_DOOR_S)
        finally:
            os.close(queue)


def _take(path: Path, deadline: float, pause_s: float) -> int | None:
    """The descriptor of the file, locked; None where that cannot be had in time."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None
    taken = False
    try:
        taken = _wait_for(descriptor, deadline, pause_s)
    finally:
        if not taken:
            os.close(descriptor)
    return descriptor if taken else None


def _wait_for(descriptor: int, deadline: float, pause_s: float) -> bool:
    pause = Event()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            # flock tells nobody when it is free.
            pause.wait(pause_s * random.uniform(0.5, 1.5))
        except OSError:
            # A file system without locks.
            return False
        else:
            return True
