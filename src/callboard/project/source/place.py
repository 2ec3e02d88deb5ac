"""The folder that work files lie in: reading and replacing files that stay below it.

Each step is taken from the open folder before it and follows no link, so neither a path nor
somebody who changes folders meanwhile leads out. A file is replaced whole, under a lock, and only
while it still holds what the change was made from. It knows nothing of what the bytes mean.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from callboard.canonical import sha256_hex
from callboard.errors import CallboardError
from callboard.files import write_synced
from callboard.project.names import shown

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_STEPS = 32

TURN_SECONDS = 10
"""How long a writer waits for another one."""

LIMIT_BACK = 64 * 1024 * 1024
"""Beyond this a file is not one that was written here; in bytes."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file as it was read."""

    path: str
    data: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A file that was replaced, and what it held before; `sha256` is what it was given.

    `spare` is an open file without a name that has the former bytes, where the system makes such
    files: it needs no room later, and is gone with the process.
    """

    place: Place
    file: str
    before: bytes
    sha256: str
    mode: int
    spare: int | None

    def put_back(self) -> None:
        """As `Place.put_back`."""
        self.place.put_back(self)

    def close(self) -> None:
        """Let the file be as it is."""
        if self.spare is not None:
            os.close(self.spare)


class Place:
    """The files below one folder. `root` is where the project lies; it is opened anew each time."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str, limit_bytes: int) -> FileRead:
        """A regular file of at most `limit_bytes`.

        Raises `source_missing`, `source_unsafe` (a link, folder, pipe or device, or a path through
        one), `resource_limit` or `file_unreadable`.
        """
        with self._folder(path) as (folder, name):
            return FileRead(path, *_read(folder, name, path, limit_bytes))

    def create(self, path: str, data: bytes) -> bool:
        """Write a file that is not there yet, with the folders above it; False: it is there."""
        with self._folder(path, make=True) as (folder, name):
            if _exists(folder, name):
                return False
            with _temporary(folder, name, data, 0o666) as temporary:
                try:
                    # A link, unlike a rename, puts nothing in the place of what came meanwhile.
                    os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                except FileExistsError:
                    return False
                os.unlink(temporary, dir_fd=folder)
            os.fsync(folder)
            return True

    def replace(
        self, path: str, sha256: str, make: Callable[[bytes], bytes], limit_bytes: int
    ) -> FileRead:
        """Put `make(bytes)` in the place of a file that still has that fingerprint.

        One at a time for all that use this class. Raises `source_conflict` where the file holds
        something else, which then stays, and the codes of `read`.
        """
        with self._folder(path) as (folder, name), _turn(folder, path):
            data, found = _read(folder, name, path, limit_bytes)
            if found != sha256:
                raise _conflict(path, sha256, found)
            changed = make(data)
            mode = stat.S_IMODE(os.lstat(name, dir_fd=folder).st_mode)
            with _temporary(folder, name, changed, mode & 0o777, exact=True) as temporary:
                # Editors take no turns: the last look is the latest that there can be.
                _, now = _read(folder, name, path, limit_bytes)
                if now != sha256:
                    raise _conflict(path, sha256, now)
                self._same_folder(path, folder)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
            return FileRead(path, changed, sha256_hex(changed))

    def exchange(
        self, path: str, sha256: str, make: Callable[[bytes], bytes], limit_bytes: int
    ) -> Exchanged:
        """As `replace`; until it is closed the file can be put back, on a full disk too."""
        with self._folder(path) as (folder, name):
            data, found = _read(folder, name, path, limit_bytes)
            if found != sha256:
                raise _conflict(path, sha256, found)
            mode = stat.S_IMODE(os.lstat(name, dir_fd=folder).st_mode) & 0o777
            spare = _spare(folder, data, mode)
        try:
            now = self.replace(path, sha256, make, limit_bytes)
        except BaseException:
            if spare is not None:
                os.close(spare)
            raise
        return Exchanged(self, path, data, now.sha256, mode, spare)

    def put_back(self, exchanged: Exchanged) -> None:
        """Let the file have its former bytes, while it has those that it was given.

        Raises `source_conflict` where it holds something else, which then stays, and the codes of
        `read`.
        """
        path, given = exchanged.file, exchanged.sha256
        with self._folder(path) as (folder, name), _turn(folder, path):
            with _former(folder, name, exchanged) as temporary:
                _, now = _read(folder, name, path, LIMIT_BACK)
                if now != given:
                    raise _conflict(path, given, now)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)

    def _same_folder(self, path: str, folder: int) -> None:
        """Refuses where the path leads to another folder by now than the one that is open."""
        with self._folder(path) as (again, _):
            if not os.path.sameopenfile(folder, again):
                raise _unsafe(path, "its folder was exchanged while it was written")

    @contextmanager
    def _folder(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        *folders, name = _steps(path)
        try:
            descriptor = os.open(self._root, _FOLDER & ~os.O_NOFOLLOW)
        except OSError as error:
            raise _unreadable(str(self._root), error) from error
        try:
            for folder in folders:
                deeper = _deeper(descriptor, folder, path, make=make)
                # Ctrl-C may come right behind either call, and nothing is to be closed twice.
                above, descriptor = descriptor, deeper
                os.close(above)
            yield descriptor, name
        except OSError as error:
            raise _failed(path, error) from error
        finally:
            os.close(descriptor)


def _steps(path: str) -> tuple[str, ...]:
    pure = PurePosixPath(path)
    parts = pure.parts
    if not parts or len(parts) > _MAX_STEPS or pure.is_absolute() or ".." in parts or "\0" in path:
        raise _unsafe(path, "it does not lead down from the project's folder")
    return parts


def _deeper(above: int, folder: str, path: str, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(folder, dir_fd=above)
            os.fsync(above)
    try:
        return os.open(folder, _FOLDER, dir_fd=above)
    except FileNotFoundError as error:
        raise _missing(path) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            raise _unsafe(path, f"{shown(folder)} on the way is a link or no folder") from error
        raise _unreadable(path, error) from error


def _exists(folder: int, name: str) -> bool:
    """Whether something has that name, be it a link to nothing."""
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def _read(folder: int, name: str, path: str, limit_bytes: int) -> tuple[bytes, str]:
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError as error:
        raise _missing(path) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise _unsafe(path, "it is a link or no regular file") from error
        raise _unreadable(path, error) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _unsafe(path, "it is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            data = stream.read(limit_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit_bytes:
        raise CallboardError(
            "resource_limit",
            f"the work file {shown(path)} is larger than {limit_bytes} bytes",
            "divide it: `sources` in work.yaml names further files",
            {"file": path, "limit_bytes": limit_bytes},
        )
    return data, sha256_hex(data)


@contextmanager
def _temporary(
    folder: int, name: str, data: bytes, mode: int, *, exact: bool = False
) -> Iterator[str]:
    """A synced sibling of `name`, gone afterwards unless it was renamed."""
    temporary = f".{name[:48]}.{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, mode, dir_fd=folder)
    try:
        if exact:
            os.fchmod(descriptor, mode)
        write_synced(descriptor, data)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


def _spare(folder: int, data: bytes, mode: int) -> int | None:
    """An open synced file without a name; None where the system makes none."""
    nameless = getattr(os, "O_TMPFILE", 0)
    if not nameless:
        return None
    try:
        descriptor = os.open(".", nameless | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL):
            return None
        raise
    try:
        os.fchmod(descriptor, mode)
        write_synced(os.dup(descriptor), data)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def _former(folder: int, name: str, exchanged: Exchanged) -> Iterator[str]:
    """A sibling of `name` with its former bytes, gone afterwards unless it was renamed."""
    temporary = f".{name[:48]}.{secrets.token_hex(8)}.tmp"
    try:
        if exchanged.spare is None:
            raise FileNotFoundError
        # The way to give a file a name that has none.
        os.link(f"/proc/self/fd/{exchanged.spare}", temporary, dst_dir_fd=folder)
    except FileNotFoundError:
        with _temporary(folder, name, exchanged.before, exchanged.mode, exact=True) as written:
            yield written
        return
    try:
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


@contextmanager
def _turn(folder: int, path: str) -> Iterator[None]:
    """One writer at a time: a lock on the open folder, which leaves nothing behind."""
    end = time.monotonic() + TURN_SECONDS
    pause = threading.Event()
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() > end:
                raise CallboardError(
                    "source_busy",
                    f"another process has been changing {shown(path)} for {TURN_SECONDS} s",
                    "look whether it hangs, then repeat the change",
                    {"file": path},
                ) from error
        pause.wait(0.02)
    try:
        yield
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


def _conflict(path: str, expected: str, found: str) -> CallboardError:
    return CallboardError(
        "source_conflict",
        f"{shown(path)} changed since it was read: its sha256 is {found[:12]}…, "
        f"not {expected[:12]}…; it was left as it is",
        "look at the file again, then make the change anew",
        {"file": path, "expected": expected, "actual": found},
    )


def _missing(path: str) -> CallboardError:
    return CallboardError(
        "source_missing",
        f"there is no {shown(path)}",
        "`callboard project init` proposes a work file",
        {"file": path},
    )


def _unsafe(path: str, what: str) -> CallboardError:
    return CallboardError(
        "source_unsafe",
        f"{shown(path)} is not taken for a work file: {what}",
        "work files are regular files below the project's folder, reached without links",
        {"file": shown(path)},
    )


def _unreadable(path: str, error: OSError) -> CallboardError:
    return CallboardError(
        "file_unreadable",
        f"{shown(path)} cannot be read: {error.strerror}",
        "check the path and its permissions",
        {"file": shown(path)},
    )


def _failed(path: str, error: OSError) -> CallboardError:
    return CallboardError(
        "source_unwritable",
        f"{shown(path)} cannot be read or written: {error.strerror}; it was left as it is",
        "check the permissions and the space on the disk",
        {"file": shown(path)},
    )
