"""A run's output on disk, never more than its limit.

Takes whatever is handed over so that the writer never blocks; what lies beyond the limit, or
finds no room on the disk, is counted and dropped. Must never raise for what a worker writes.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LogSummary:
    """What became of one stream: bytes seen, bytes kept, and why fewer were kept.

    `write_error` is the symbolic errno (`ENOSPC`) of a failed write, else None.
    """

    path: Path
    seen_bytes: int
    kept_bytes: int
    write_error: str | None

    @property
    def truncated(self) -> bool:
        """Whether the file holds less than was written."""
        return self.kept_bytes < self.seen_bytes

    def document(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "path": str(self.path),
            "seen_bytes": self.seen_bytes,
            "kept_bytes": self.kept_bytes,
            "truncated": self.truncated,
            "write_error": self.write_error,
        }


class CappedLog:
    """A new private file (0600) that keeps the first `limit_bytes` of what is written to it.

    Opening raises `OSError`, also where the path already exists: logs are never overwritten.
    """

    def __init__(self, path: Path, limit_bytes: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        self._path = path
        self._limit_bytes = limit_bytes
        self._seen_bytes = 0
        self._kept_bytes = 0
        self._write_error: str | None = None

    def __enter__(self) -> CappedLog:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        """Count `data` and keep as much of it as the limit leaves room for."""
        self._seen_bytes += len(data)
        room = memoryview(data)[: max(0, self._limit_bytes - self._kept_bytes)]
        while room and self._write_error is None:
            try:
                written = os.write(self._descriptor, room)
            except OSError as failure:
                # A gap would make the file lie about the order of things: nothing more is kept.
                self._write_error = errno.errorcode.get(failure.errno or 0, "EIO")
                return
            self._kept_bytes += written
            room = room[written:]

    def close(self) -> None:
        """Make the file durable and close it; a second call does nothing."""
        if self._descriptor < 0:
            return
        try:
            os.fsync(self._descriptor)
        except OSError as failure:
            self._write_error = self._write_error or errno.errorcode.get(failure.errno or 0, "EIO")
        finally:
            os.close(self._descriptor)
            self._descriptor = -1

    def summary(self) -> LogSummary:
        """What was seen and kept so far."""
        return LogSummary(self._path, self._seen_bytes, self._kept_bytes, self._write_error)
