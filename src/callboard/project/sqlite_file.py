"""A project's SQLite file: how it is made, opened and snapshot, and what its errors mean.

Every connection that operations use has the same settings. Nothing here knows a table, and nobody
outside the wing's rooms gets a connection.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any
from urllib.parse import quote

import msgspec
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from callboard.errors import CallboardError
from callboard.project.waiting import begin_writing, is_busy

FILE = "project.db"
FOLDER = ".callboard"

BUSY_MS = 10_000
"""How long a connection waits for others before it gives up."""

# A log that stayed would be played into the copy.
RESTORE = (
    "stop all that use the project, remove project.db-wal and project.db-shm, then restore "
    "project.db from a copy"
)

SETTINGS = (
    "PRAGMA foreign_keys = ON",
    # Else REPLACE would delete a row without its trigger.
    "PRAGMA recursive_triggers = ON",
    "PRAGMA synchronous = FULL",
    "PRAGMA trusted_schema = OFF",
)

# In words that every SQLite of the last years knows; some of them cannot tell fractions of seconds.
_NOW = "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"


def make_file(path: Path) -> None:
    """Make the empty file, readable for its owner only, in a folder that is so too if it is new."""
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        # One that is there is not opened: see `keeps_wal`.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        check_file(path)
        return
    except OSError as error:
        if error.errno == errno.EROFS:
            raise read_only(path) from error
        raise unreadable(path, error) from error
    os.close(descriptor)


def check_file(path: Path) -> int:
    """The size in bytes of an existing regular file; 0 also for one that is not there."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise _not_regular(path, "give a folder whose .callboard/project.db is a plain file")
    for suffix in _BESIDE:
        _check_beside(path.with_name(path.name + suffix))
    return found.st_size


_BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite makes beside a file; it opens whatever has such a name, and would wait at a pipe."""


def _check_beside(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise _not_regular(path, "end all processes that have the project open, and move it away")


def _not_regular(path: Path, hint: str) -> CallboardError:
    return CallboardError(
        "file_not_regular", f"the project's file {str(path)!r} is not a regular file", hint
    )


def engine_on(
    path: Path, *, read_only: bool = False, immutable: bool = False, busy_ms: int = BUSY_MS
) -> Engine:
    """An engine on the existing file. Nothing is opened before somebody connects.

    `immutable`: nobody can change it meanwhile, so SQLite makes nothing beside it to read it.
    It stays with the file that it opened first: `project_replaced` once the path leads to another
    one, or to none, as what was written then would be lost.
    """
    mode = "ro" if read_only else "rw"
    address = f"file:{quote(str(path))}?mode={mode}" + ("&immutable=1" if immutable else "")

    opened: list[_Identity] = []

    def check(_connection: Connection | None = None) -> None:
        if opened and _identity(path) != opened[0]:
            raise replaced(path)

    def connect() -> sqlite3.Connection:
        check()
        before = _identity(path)
        connection = sqlite3.connect(
            address,
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=busy_ms / 1000,
        )
        # SQLite does not say which file it has open: it is the one that lay there all the while.
        if before is None or _identity(path) != before:
            connection.close()
            raise replaced(path)
        opened[:] = [before]
        return _set(connection)

    engine = _engine(
        connect, NullPool if read_only else QueuePool, partial(_begin, file=path, busy_ms=busy_ms)
    )
    # When it began, and at the last moment.
    event.listen(engine, "begin", check)
    event.listen(engine, "commit", check)
    return engine


_Identity = tuple[int, int]


def _identity(path: Path) -> _Identity | None:
    """What makes a file this very one; None: nothing can be found there."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def snapshot_of(path: Path, *, busy_ms: int = BUSY_MS) -> Engine:
    """An engine on a copy in memory, of one moment; the file is opened for reading only."""
    immutable = on_read_only_disk(path) and has_no_log(path)
    source = engine_on(path, read_only=True, immutable=immutable, busy_ms=busy_ms)
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        with source.connect() as connection:
            _driver(connection).backup(copy)
    except BaseException:
        copy.close()
        raise
    finally:
        source.dispose()
    _set(copy)
    return _engine(lambda: copy, StaticPool, _look)


def _set(connection: sqlite3.Connection) -> sqlite3.Connection:
    try:
        for setting in SETTINGS:
            connection.execute(setting)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _engine(
    connect: Callable[[], sqlite3.Connection], pool: Any, begin: Callable[[Connection], None]
) -> Engine:
    engine = create_engine("sqlite://", creator=connect, poolclass=pool)
    event.listen(engine, "begin", begin)
    return engine


def now_ms(connection: Connection) -> int:
    """The time as SQLite tells it, in Unix ms, whatever this process takes it for.

    SQLite counts whole milliseconds. As days, in a double, they are less than a twentieth of one
    off, so that rounding gives them back exactly.
    """
    # By the driver itself, as everybody else waits for the answer meanwhile.
    return int(_driver(connection).execute(_NOW).fetchone()[0])


def _driver(connection: Connection) -> sqlite3.Connection:
    found = connection.connection.driver_connection
    assert isinstance(found, sqlite3.Connection)
    return found


def _look(connection: Connection) -> None:
    """Begin to read; the driver begins nothing by itself."""
    connection.exec_driver_sql("BEGIN")


def _begin(connection: Connection, *, file: Path, busy_ms: int) -> None:
    """Begin to read, or as a writer, who takes the file's one place at once."""
    if not connection.get_execution_options().get("writes"):
        _look(connection)
        return
    try:
        begin_writing(_driver(connection), busy_ms)
    except sqlite3.Error as error:
        raise refusal(error, file) from error


def keeps_wal(path: Path) -> bool:
    """Whether the file says that it has a write-ahead log."""
    # Never by opening the file as such: to close it again would drop every lock that SQLite holds
    # on it in this process, and then others take its log away while it is written to.
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
    try:
        return bool(connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal")
    finally:
        connection.close()


def keep_wal(path: Path, *, busy_ms: int = BUSY_MS) -> None:
    """Switch the file to write-ahead logging, once for all who open it."""
    # The switch does not wait for others by itself, so somebody has to come again.
    give_up = monotonic() + busy_ms / 1000
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, isolation_level=None, timeout=1
    )
    try:
        while True:
            try:
                found = connection.execute("PRAGMA journal_mode").fetchone()[0]
                if found != "wal":
                    found = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                if found == "wal":
                    return
            except sqlite3.OperationalError as error:
                if not is_busy(error) or monotonic() > give_up:
                    raise
            else:
                if monotonic() > give_up:
                    raise CallboardError(
                        "filesystem_unsupported",
                        f"{str(path)!r} cannot keep a write-ahead log; it stays with {found!r}",
                        "keep the project's folder on a disk of this machine",
                    )
            Event().wait(0.01)
    finally:
        connection.close()


# --- what errors mean --------------------------------------------------------------------------


def _primary(error: BaseException | None) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)
"""What is raised where something that is stored cannot be read as what it should be."""


_ROOM_BYTES = 64 * 1024
"""More than SQLite takes at once beside a page: the index of its log grows by 32 KiB."""


def _is_full(path: Path) -> bool:
    """Whether the disk has no room: SQLite calls it an I/O error where the log's index grows."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _ROOM_BYTES


def on_read_only_disk(path: Path) -> bool:
    """Whether the file's folder lies on a disk that is mounted for reading only."""
    try:
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def has_no_log(path: Path) -> bool:
    """Whether there is no log beside the file, so that the file alone holds everything."""
    return not os.path.lexists(path.with_name(path.name + "-wal"))


def refusal(error: Exception, path: Path) -> CallboardError:
    """What an error of SQLite, or of reading what it gave, comes to for people and programs."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = _primary(cause)
    where = repr(str(path))
    if is_busy(cause):
        return CallboardError(
            "busy",
            f"other processes kept {where} to themselves; nothing was written",
            "try again; if it stays so, look for a process that was stopped",
        )
    # The driver itself, and not SQLite, refuses text that is no UTF-8: that has no code.
    is_no_text = isinstance(cause, sqlite3.OperationalError) and code is None
    damaged = isinstance(error, UNREADABLE) or is_no_text
    if damaged or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return CallboardError(
            "project_corrupt",
            f"{where} is damaged, or no database: {cause}",
            f"`callboard project doctor` tells more; {RESTORE}",
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return read_only(path)
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR) and on_read_only_disk(path):
        # To read it too SQLite has to make its log and the index of that.
        return read_only(path)
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
        return CallboardError(
            "disk_full",
            f"the disk with {where} is full; nothing was written",
            "free some space and try again",
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return unreadable(path, cause)
    return CallboardError(
        "storage_failed",
        f"the database {where} refused: {cause}",
        "nothing was written; run `callboard project doctor`",
    )


def replaced(path: Path) -> CallboardError:
    """That the path no longer leads to the file that is open."""
    return CallboardError(
        "project_replaced",
        f"the database {str(path)!r} was replaced or taken away while it was open; nothing was "
        "written",
        "open the project again; what was told before may be in the other file, or lost",
    )


def unreadable(path: Path, cause: BaseException | None) -> CallboardError:
    """That the file, or its folder, cannot be opened, looked at or made."""
    return CallboardError(
        "project_unreadable",
        f"{str(path)!r} cannot be opened: {getattr(cause, 'strerror', None) or cause}",
        "check the file, its folder, and their permissions",
    )


def read_only(path: Path) -> CallboardError:
    """That the file cannot be written."""
    return CallboardError(
        "project_readonly",
        f"{str(path)!r} can only be read; nothing was written",
        "check the permissions of the file and its folder",
    )
