"""The turn of one Callboard process at one ref, given back by the kernel when the process dies.

It also proves which of Git's lock files were left by a dead Callboard process, so that those, and
only those, are cleared away. It never removes a lock that somebody else may hold.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dulwich.file import SharedPerm, adjust_shared_perm

from callboard.board.storage.refusals import io_refused

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.02


class Busy(Exception):
    """The turn did not come in time; `overtaken` when it has become useless anyway."""

    def __init__(self, *, overtaken: bool) -> None:
        super().__init__()
        self.overtaken = overtaken


class Patience:
    """Short, jittered, growing pauses until a deadline, or until waiting has become useless."""

    def __init__(self, wait_s: float, overtaken: Callable[[], bool]) -> None:
        self._deadline = time.monotonic() + wait_s
        self._pause_s = _FIRST_PAUSE_S
        self.overtaken = overtaken

    def pause(self) -> bool:
        """Wait a little; False when there is no point in trying again."""
        if time.monotonic() >= self._deadline or self.overtaken():
            return False
        # Neither flock nor a lock file tells a waiter when it is free.
        time.sleep(self._pause_s * random.uniform(0.5, 1.5))  # noqa: TID251
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return True


class WriterLock:
    """The writers' lock of one ref, an advisory lock on a file of its own in `folder`.

    Beside it lies, during a move, the pending file: a hard link to Git's lock file. Whoever
    holds this lock and finds the pending file knows that its maker is dead, and that the lock
    file which is the same inode was that maker's.
    """

    def __init__(self, folder: Path, ref: str, shared: SharedPerm | None) -> None:
        stem = "ref-" + hashlib.sha256(ref.encode()).hexdigest()[:32]
        self.path = folder / f"{stem}.lock"
        self._pending = folder / f"{stem}.pending"
        self._shared = shared

    @contextmanager
    def held(self, patience: Patience) -> Iterator[None]:
        """Hold the lock; raises `Busy` when the patience ends first."""
        descriptor = self._take(patience)
        try:
            yield
        finally:
            os.close(descriptor)

    def _take(self, patience: Patience) -> int:
        while True:
            try:
                descriptor = self._try_once()
            except OSError as error:
                raise io_refused("take the lock", self.path, error) from error
            if descriptor is not None:
                return descriptor
            if not patience.pause():
                raise Busy(overtaken=patience.overtaken())

    def _try_once(self) -> int | None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        taken = False
        try:
            if self._shared is not None and os.fstat(descriptor).st_uid == os.geteuid():
                adjust_shared_perm(self.path, self._shared)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A lock on a file that was deleted meanwhile is worth nothing.
            taken = os.path.samestat(os.fstat(descriptor), self.path.stat())
        except (BlockingIOError, FileNotFoundError):
            pass
        finally:
            if not taken:
                os.close(descriptor)
        return descriptor if taken else None

    def clear(self, git_lock: Path) -> None:
        """Remove what a dead holder of this lock left behind. Only while holding it."""
        try:
            left = self._pending.stat()
        except FileNotFoundError:
            return
        try:
            if os.path.samestat(left, git_lock.stat()):
                git_lock.unlink()
        except FileNotFoundError:
            pass
        self._pending.unlink()

    def prepare(self, contents: bytes) -> Path:
        """Write the pending file, synced, and answer its path. Only while holding the lock."""
        descriptor = os.open(
            self._pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666
        )
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(contents)
            stream.flush()
            os.fsync(stream.fileno())
        adjust_shared_perm(self._pending, self._shared)
        return self._pending
