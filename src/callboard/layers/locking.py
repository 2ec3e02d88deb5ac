"""The coordinator's place: one process of this checkout at a time, and who it is.

Source: layers.md §4. The lock is the operating system's and goes with its process; what is written
beside it only tells people who has it. Whoever appends to a shared file takes a lock of its own.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from dataclasses import dataclass

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
WRITER = f"{LAYERS}/writer.lock"
_WRITER_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Held:
    """The place of the coordinator, as long as its lock file is the one that was locked."""

    around: Around
    file: tuple[int, int] | None

    @property
    def is_ours(self) -> bool:
        """Whether nobody took the lock file away, with which another process could lock a new one.

        The number of a file that is open here is given to no other one.
        """
        return _file(self.around) == self.file

    def check(self) -> None:
        """Raise `coordinator_lost` where it is not."""
        if not self.is_ours:
            raise CallboardError(
                "coordinator_lost",
                f"{LOCK} was taken away while this process coordinated, so another one may by now",
                "leave the file alone; run again, which is refused while another one coordinates",
            )


@contextlib.contextmanager
def coordinator(around: Around) -> Iterator[Held]:
    """Be the one coordinator of this checkout; `coordinator_busy` names who is it already."""
    lock = _lock(around, LOCK, 0.0)
    try:
        lock.acquire()
    except Timeout as error:
        raise _busy(around) from error
    except OSError as error:
        raise _refused(LOCK, error) from error
    try:
        around.disk.publish(HOLDER, msgspec.json.encode(identity.current().document()) + b"\n")
        held = Held(around, _file(around))
        try:
            yield held
        finally:
            # Otherwise it names another one by now.
            if held.is_ours:
                around.disk.remove(HOLDER)
    finally:
        lock.release()


def _file(around: Around) -> tuple[int, int] | None:
    facts = around.disk.facts(LOCK)
    return None if facts is None else (facts.st_dev, facts.st_ino)


@contextlib.contextmanager
def writer(around: Around, wait_s: float = _WRITER_WAIT_S) -> Iterator[None]:
    """Be the one process that appends to a file which several may append to.

    Raises `writer_busy` where another one does for `wait_s` seconds.
    """
    lock = _lock(around, WRITER, wait_s)
    try:
        lock.acquire()
    except Timeout as error:
        raise CallboardError(
            "writer_busy",
            f"another process held {WRITER} for {wait_s:.0f} s",
            "look for a stopped process that tells a layer something, and end it",
        ) from error
    except OSError as error:
        raise _refused(WRITER, error) from error
    try:
        yield
    finally:
        lock.release()


def _lock(around: Around, place: str, timeout_s: float) -> FileLock:
    # Not opened before it is known that no link leads it elsewhere.
    if around.disk.kind(place) not in (None, "file"):
        raise CallboardError(
            "path_invalid", f"{place} is not a regular file", "remove it, and run the command again"
        )
    around.disk.make_folder(LAYERS)
    return FileLock(around.disk.path(place), timeout=timeout_s, mode=0o644)


def _refused(place: str, error: OSError) -> CallboardError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CallboardError(
            "disk_full",
            f"{place} could not be made: {error.strerror}",
            "make room on the disk and do it again",
        )
    return CallboardError(
        "storage_failed",
        f"{place} cannot be locked: {error.strerror or error}",
        "check that the folder can be written to, and that its file system has locks",
    )


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
