"""Files published whole or not at all.

The only place that writes a temporary sibling, syncs it and renames it, save for Git's own object
files; it also bounds reads before anything is parsed. It knows nothing of what the bytes mean.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from callboard.errors import CallboardError


def publish(path: Path, data: bytes, *, private: bool = False, replace: bool = True) -> None:
    """Write `data` to `path` durably: temporary sibling, fsync, rename, fsync of the folder.

    `private` gives mode 0600 (else 0644 less the umask). With `replace=False` an existing file
    is kept and `FileExistsError` is raised. The temporary name starts with a dot and ends in
    `.tmp`, so that no reader takes it for a finished file.
    """
    # 48 characters are at most 192 bytes, so the name stays below the usual 255.
    temporary = path.with_name(f".{path.name[:48]}.{secrets.token_hex(8)}.tmp")
    # O_EXCL follows no link either.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    descriptor = os.open(temporary, flags, 0o600 if private else 0o644)
    try:
        write_synced(descriptor, data)
        if replace:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
            os.unlink(temporary)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def publish_in(
    folder: int, name: str, data: bytes, *, private: bool = False, replace: bool = True
) -> None:
    """As `publish`, in the open folder `folder`: whatever its path has become since, no other is
    written to. `name` is one plain file name."""
    temporary = f".{name[:48]}.{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    descriptor = os.open(temporary, flags, 0o600 if private else 0o644, dir_fd=folder)
    try:
        write_synced(descriptor, data)
        if replace:
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.unlink(temporary, dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def write_synced(descriptor: int, data: bytes) -> None:
    """Write `data` durably to the open file `descriptor`, and close it, also when that fails."""
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bounded(path: Path, limit_bytes: int, *, what: str) -> bytes:
    """The bytes of a regular file of at most `limit_bytes`.

    Raises `CallboardError` `file_missing`, `file_unreadable`, `file_not_regular` or
    `resource_limit`; `what` names the file's role in the message.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise CallboardError(
            "file_missing", f"{what} {str(path)!r} does not exist", "check the path"
        ) from error
    except (OSError, ValueError) as error:
        # A ValueError is a path that no system call takes, such as one with NUL in it.
        raise CallboardError(
            "file_unreadable",
            f"{what} {str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}",
            "check the path and its permissions",
        ) from error
    # Before `fdopen`, which has its own words for a folder and would keep the descriptor.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CallboardError(
            "file_not_regular",
            f"{what} {str(path)!r} is not a regular file",
            "give a plain file",
        )
    with os.fdopen(descriptor, "rb") as stream:
        data = stream.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise CallboardError(
            "resource_limit",
            f"{what} {str(path)!r} is larger than {limit_bytes} bytes",
            f"keep it at or under {limit_bytes} bytes",
            {"limit_bytes": limit_bytes},
        )
    return data
