"""A file system that is as full as a test wants it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

PAGE = 4096


class FullDisk:
    """A small file system with as much room as is wanted."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._filler = place / "filler"

    def leave(self, pages: int) -> None:
        """Fill it, but for so many pages."""
        descriptor = os.open(self._filler, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            for step in (1024 * PAGE, 64 * PAGE, PAGE):
                while True:
                    try:
                        os.posix_fallocate(descriptor, size, step)
                    except OSError as error:
                        if error.errno != errno.ENOSPC:
                            raise
                        break
                    size += step
            os.ftruncate(descriptor, size - pages * PAGE)
        finally:
            os.close(descriptor)

    def free(self) -> None:
        """Make room again."""
        self._filler.unlink()
