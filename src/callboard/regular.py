"""Reading one regular file that somebody hostile may have put there.

It never follows a symbolic link, never blocks on a pipe or device, and never reads more than it
was allowed to. It knows nothing of what the bytes mean.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import IO

from callboard.errors import CallboardError

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK_ERRORS = (errno.ELOOP, errno.EMLINK)
_FORBIDDEN = (errno.EACCES, errno.EPERM)


def shown_name(name: str) -> str:
    """A file name as messages may show it: printable, one line, at most 200 characters."""
    plain = name.encode("utf-8", "backslashreplace").decode("utf-8")
    text = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in plain)
    return text if len(text) <= 200 else text[:197] + "..."


def read_regular(
    name: str, limit_bytes: int, *, what: str, dir_fd: int | None = None, code: str
) -> bytes:
    """The bytes of the regular file `name` (below the open folder `dir_fd`, where given).

    Raises `CallboardError` `file_missing`, `file_not_regular` (a link, folder, pipe or device),
    `file_unreadable` (its permissions forbid it), `storage_failed` (no read is possible now), or
    `code` for more than `limit_bytes`; `what` names the file's role.
    """
    shown = shown_name(name)
    with open_regular(name, what=what, dir_fd=dir_fd) as stream:
        try:
            size_bytes = os.fstat(stream.fileno()).st_size
            if size_bytes > limit_bytes:
                raise _too_large(what, shown, size_bytes, limit_bytes, code)
            data = stream.read(limit_bytes + 1)
        except OSError as error:
            raise _unreadable(what, shown, error) from error
    # A file may grow, or state no size, while it is read.
    if len(data) > limit_bytes:
        raise _too_large(what, shown, len(data), limit_bytes, code)
    return data


def open_regular(name: str, *, what: str, dir_fd: int | None = None) -> IO[bytes]:
    """The regular file `name`, open to be read; refusals as of `read_regular`, save for its size.

    Whoever opens it bounds what is read of it.
    """
    shown = shown_name(name)
    try:
        descriptor = os.open(name, _FLAGS, dir_fd=dir_fd)
    except FileNotFoundError as error:
        raise CallboardError(
            "file_missing", f"{what} {shown!r} does not exist", "check the path"
        ) from error
    except OSError as error:
        # A socket cannot be opened at all.
        if error.errno in _LINK_ERRORS or error.errno == errno.ENXIO:
            raise _not_regular(what, shown) from error
        raise _unreadable(what, shown, error) from error
    except ValueError as error:
        raise CallboardError(
            "file_missing", f"{what} {shown!r} holds a NUL character", "check the path"
        ) from error
    # Before Python wraps the descriptor, which it refuses to do for a folder.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(what, shown)
    return os.fdopen(descriptor, "rb")


def _not_regular(what: str, shown: str) -> CallboardError:
    return CallboardError(
        "file_not_regular",
        f"{what} {shown!r} is not a regular file",
        "give a plain file, not a link, folder, pipe or device",
    )


def _unreadable(what: str, shown: str, error: OSError) -> CallboardError:
    if error.errno in _FORBIDDEN:
        return CallboardError(
            "file_unreadable",
            f"{what} {shown!r} cannot be read: {error.strerror}",
            "check the path and its permissions",
        )
    # Whoever put the file there is not to blame for this.
    return CallboardError(
        "storage_failed",
        f"{what} {shown!r} cannot be read now: {error.strerror}",
        "see to the disk, the memory and the limits of the system, and do it again",
    )


def _too_large(
    what: str, shown: str, size_bytes: int, limit_bytes: int, code: str
) -> CallboardError:
    return CallboardError(
        code,
        f"{what} {shown!r} has {size_bytes} bytes or more, at most {limit_bytes} are taken",
        f"keep it at or under {limit_bytes} bytes",
        {"bytes": size_bytes, "limit_bytes": limit_bytes},
    )
