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
from callboard.board.storage.vanishing import make_folders, retried
from callboard.files import write_synced

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
    """The writers' lock of one ref, an advisory lock on a file in `<common_dir>/callboard`.

    Beside it lies, during a move, the pending file: a hard link to Git's lock file. Whoever
    holds this lock and finds the pending file knows that its maker is dead, and that the lock
    file which is the same inode was that maker's.

    The folder may be deleted at any time. Then two may hold a lock of this name, each on a file
    of its own; as a pending file is named by the inode of its maker's lock file, which stays
    taken while the maker lives, neither takes the other for dead, and Git's lock file parts them.
    """

    def __init__(self, common_dir: Path, ref: str, shared: SharedPerm | None) -> None:
        self._common_dir = common_dir
        self._folder = common_dir / "callboard"
        self._stem = "ref-" + hashlib.sha256(ref.encode()).hexdigest()[:32]
        self.path = self._folder / f"{self._stem}.lock"
        self._inode = 0
        self._shared = shared

    @property
    def pending(self) -> Path:
        """Where `prepare` writes. Only while holding the lock."""
        return self._folder / f"{self._stem}.{self._inode}.pending"

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
        self._make_folder()
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            # The folder was deleted in this very moment.
            return None
        taken = False
        try:
            if self._shared is not None and os.fstat(descriptor).st_uid == os.geteuid():
                adjust_shared_perm(self.path, self._shared)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A lock on a file that was deleted meanwhile is worth nothing.
            held = os.fstat(descriptor)
            taken = os.path.samestat(held, self.path.stat())
            self._inode = held.st_ino
        except (BlockingIOError, FileNotFoundError):
            pass
        finally:
            if not taken:
                os.close(descriptor)
        return descriptor if taken else None

    def _make_folder(self) -> None:
        retried(lambda: make_folders(self._common_dir, self._folder, self._shared, set()))

    def clear(self, git_lock: Path) -> None:
        """Remove what a dead holder of this lock left behind. Only while holding it."""
        try:
            left = self.pending.stat()
        except FileNotFoundError:
            return
        try:
            if os.path.samestat(left, git_lock.stat()):
                git_lock.unlink()
        except FileNotFoundError:
            pass
        self.pending.unlink(missing_ok=True)

    def prepare(self, contents: bytes) -> Path:
        """Write the pending file, synced, unless it is there; only while holding the lock.

        Answers its path. Raises `FileNotFoundError` when its folder is being deleted.
        """
        if self.pending.exists():
            return self.pending
        self._make_folder()
        descriptor = os.open(
            self.pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666
        )
        write_synced(descriptor, contents)
        adjust_shared_perm(self.pending, self._shared)
        return self.pending

    def discard(self) -> None:
        """Remove the pending file, if there is one. Only while holding the lock."""
        try:
            self.pending.unlink(missing_ok=True)
        except OSError:
            # The next holder clears it; the move has had its outcome.
            return
