"""The SQLite file of the run registry: where it lies, who may read it, what its tables allow.

The tables themselves refuse deletions and any step of a run that is not one of its lifecycle's,
whatever program writes to them.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from pathlib import Path
from threading import Event

from callboard.errors import CallboardError
from callboard.files import sync_folder

FILE_NAME = "runs.sqlite3"
SCHEMA_VERSION = 1
_APPLICATION_ID = 0x43424452

_SCHEMA = """
CREATE TABLE dispatcher_run (
  run_id TEXT NOT NULL PRIMARY KEY,
  identity TEXT NOT NULL,
  registered_ms INTEGER NOT NULL
);
CREATE TABLE worker_run (
  run_id TEXT NOT NULL PRIMARY KEY,
  repository TEXT NOT NULL,
  dispatch_id TEXT NOT NULL,
  sender_run_id TEXT NOT NULL REFERENCES dispatcher_run (run_id),
  workflow TEXT,
  ref TEXT,
  workspace TEXT,
  state TEXT NOT NULL CHECK (state IN ('prepared', 'running', 'ended', 'void')),
  supervisor TEXT,
  workers TEXT NOT NULL DEFAULT '[]',
  prepared_ms INTEGER,
  running_ms INTEGER,
  ended_ms INTEGER,
  void_ms INTEGER,
  conclusion TEXT,
  exit_code INTEGER,
  signal INTEGER,
  survivors TEXT NOT NULL DEFAULT '[]',
  notes TEXT NOT NULL DEFAULT '[]',
  UNIQUE (repository, dispatch_id),
  CHECK ((state IN ('running', 'ended')) = (supervisor IS NOT NULL)),
  CHECK ((state = 'ended') = (conclusion IS NOT NULL))
);
CREATE INDEX worker_run_open ON worker_run (prepared_ms) WHERE state IN ('prepared', 'running');
CREATE TRIGGER dispatcher_run_stays BEFORE DELETE ON dispatcher_run
BEGIN SELECT RAISE(ABORT, 'evidence is never deleted'); END;
CREATE TRIGGER dispatcher_run_fixed BEFORE UPDATE ON dispatcher_run
BEGIN SELECT RAISE(ABORT, 'evidence is never changed'); END;
CREATE TRIGGER worker_run_stays BEFORE DELETE ON worker_run
BEGIN SELECT RAISE(ABORT, 'evidence is never deleted'); END;
CREATE TRIGGER worker_run_fixed BEFORE UPDATE ON worker_run
WHEN OLD.run_id IS NOT NEW.run_id OR OLD.repository IS NOT NEW.repository
  OR OLD.dispatch_id IS NOT NEW.dispatch_id OR OLD.sender_run_id IS NOT NEW.sender_run_id
  OR OLD.workflow IS NOT NEW.workflow OR OLD.ref IS NOT NEW.ref
  OR (OLD.supervisor IS NOT NULL AND OLD.supervisor IS NOT NEW.supervisor)
  OR (OLD.conclusion IS NOT NULL AND OLD.conclusion IS NOT NEW.conclusion)
BEGIN SELECT RAISE(ABORT, 'what a run is stays as it was recorded'); END;
CREATE TRIGGER worker_run_lifecycle BEFORE UPDATE OF state ON worker_run
WHEN OLD.state IS NOT NEW.state AND NOT (
  (OLD.state = 'prepared' AND NEW.state IN ('running', 'void'))
  OR (OLD.state = 'running' AND NEW.state = 'ended'))
BEGIN SELECT RAISE(ABORT, 'a run never goes back'); END;
"""


def open_registry_file(folder: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """A connection to the registry in `folder`, which is created where it is missing.

    It may pass between threads. Raises `sqlite3.Error` (see `refused`) and `CallboardError`
    `registry_unusable`, `registry_invalid` or `registry_newer`.
    """
    path = folder / FILE_NAME
    _private_folder(folder)
    _private_file(path)
    deadline = time.monotonic() + busy_timeout_s
    pause = Event()
    while True:
        try:
            return _connect(path, busy_timeout_s)
        except sqlite3.OperationalError as error:
            # Several first openers can get in each other's way where SQLite does not wait.
            if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        pause.wait(0.02)


def refused(error: sqlite3.Error, folder: Path) -> CallboardError:
    """What a database error means to the caller; the registry is left as it is."""
    path = str(folder / FILE_NAME)
    code = _primary_code(error)
    details: dict[str, object] = {
        "path": path,
        "sqlite": getattr(error, "sqlite_errorname", type(error).__name__),
    }
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        message = f"the run registry {path!r} stayed busy; nothing was written"
        return CallboardError("registry_busy", message, "try again", details)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT):
        return CallboardError(
            "registry_invalid",
            f"the run registry {path!r} does not hold what it should ({details['sqlite']})",
            "keep the file as evidence, and restore it from a copy",
            details,
        )
    return CallboardError(
        "registry_unusable",
        f"the run registry {path!r} cannot be used ({details['sqlite']})",
        "check the folder, its file system and the free space",
        details,
    )


def _primary_code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _private_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise _unusable(folder, "is not a folder of this user")
        if stat.S_IMODE(status.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise _unusable(folder, f"cannot be made: {error.strerror}") from error


def _private_file(path: Path) -> None:
    """Create the file with its final mode: SQLite gives that mode to its side files, too.

    A file that exists is not opened here. Closing it would release the locks that another
    connection of this process holds, as POSIX locks go by file and process.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            os.close(os.open(path, flags, 0o600))
        except FileExistsError:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                raise _unusable(path, "is not a regular file") from None
            if stat.S_IMODE(status.st_mode) != 0o600:
                path.chmod(0o600)
        else:
            sync_folder(path.parent)
    except OSError as error:
        raise _unusable(path, f"cannot be opened: {error.strerror}") from error


def _unusable(path: Path, what: str) -> CallboardError:
    return CallboardError(
        "registry_unusable",
        f"the run registry's {str(path)!r} {what}",
        "give a state folder of your own on a local disk",
        {"path": str(path)},
    )


def _connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
    )
    try:
        connection.row_factory = sqlite3.Row
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise _unusable(path, f"cannot use a write-ahead log (it says {mode!r})")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        _ensure_schema(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _ensure_schema(connection: sqlite3.Connection, path: Path) -> None:
    version = _version(connection)
    if version == 0:
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection)
            if version == 0:
                _create_schema(connection)
                version = SCHEMA_VERSION
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != _APPLICATION_ID:
        raise CallboardError(
            "registry_invalid",
            f"{str(path)!r} is a database of another program",
            "move it away, or give another state folder",
            {"path": str(path)},
        )
    if version != SCHEMA_VERSION:
        raise CallboardError(
            "registry_newer",
            f"the run registry {str(path)!r} has format {version}; this program knows "
            f"{SCHEMA_VERSION}",
            "use the newer callboard that wrote it",
            {"path": str(path), "found": version, "known": SCHEMA_VERSION},
        )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _create_schema(connection: sqlite3.Connection) -> None:
    """Create the tables inside the running transaction."""
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None:
        return
    statement = ""
    for line in _SCHEMA.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
