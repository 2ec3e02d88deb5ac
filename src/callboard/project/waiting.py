"""How processes that want to write one SQLite file wait for each other.

SQLite's own waiting sleeps longer each time, up to a tenth of a second, so that whoever has just
written comes first again and again. Here everybody comes back after some milliseconds that are
drawn anew each time: often enough for all to get their turn, and seldom enough for whoever is at it
to write several times before somebody else has to read what changed.
"""

from __future__ import annotations

import sqlite3
from random import uniform
from threading import Event
from time import monotonic

_PAUSE_S = (0.001, 0.008)


def begin_writing(driver: sqlite3.Connection, patience_ms: int) -> None:
    """Begin a transaction that may write; raises as SQLite does, after the patience is used up."""
    give_up = monotonic() + patience_ms / 1000
    driver.execute("PRAGMA busy_timeout = 0")
    try:
        while not _began(driver, last=monotonic() >= give_up):
            Event().wait(uniform(*_PAUSE_S))
    finally:
        driver.execute(f"PRAGMA busy_timeout = {patience_ms}")


def _began(driver: sqlite3.Connection, *, last: bool) -> bool:
    try:
        driver.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if last or not is_busy(error):
            raise
        return False
    return True


def is_busy(error: BaseException | None) -> bool:
    """Whether an error says that others have the file, and nothing else."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
