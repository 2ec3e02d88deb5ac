"""The coordinator's place: one process of this checkout at a time, and who it is.

Source: layers.md §4. The lock is the operating system's and goes with its process; what is written
beside it only tells people who has it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec
from filelock import FileLock, Timeout

from callboard.errors import CallboardError
from callboard.layers.around import Around
from callboard.layers.records.attempt import RecordedProcess
from callboard.layers.records.base import MAX_RECORD_BYTES
from callboard.layers.tree import LAYERS
from callboard.processes import identity

LOCK = f"{LAYERS}/coordinator.lock"
HOLDER = f"{LAYERS}/coordinator.json"


@contextlib.contextmanager
def coordinator(around: Around) -> Iterator[None]:
    """Be the one coordinator of this checkout; `coordinator_busy` names who is it already."""
    # Not opened before it is known that no link leads it elsewhere.
    if around.disk.kind(LOCK) not in (None, "file"):
        raise CallboardError(
            "path_invalid", f"{LOCK} is not a regular file", "remove it, and run the command again"
        )
    around.disk.make_folder(LAYERS)
    lock = FileLock(around.disk.path(LOCK), timeout=0, mode=0o644)
    try:
        lock.acquire()
    except Timeout as error:
        raise _busy(around) from error
    try:
        around.disk.publish(HOLDER, msgspec.json.encode(identity.current().document()) + b"\n")
        yield
    finally:
        around.disk.remove(HOLDER)
        lock.release()


def holder(around: Around) -> RecordedProcess | None:
    """Who says to be the coordinator; None: nobody, or it cannot be read."""
    try:
        data = around.disk.read(HOLDER, MAX_RECORD_BYTES)
        return msgspec.json.decode(data, type=RecordedProcess)
    except (CallboardError, msgspec.DecodeError):
        return None


def _busy(around: Around) -> CallboardError:
    found = holder(around)
    who = "another process" if found is None else f"process {found.pid} on {found.host!r}"
    return CallboardError(
        "coordinator_busy",
        f"{who} coordinates the layers of {str(around.disk.root)!r} already",
        "let it go on, or end it first",
        {} if found is None else {"pid": found.pid, "host": found.host},
    )
