"""Reading a file that has to lie below a folder, whatever the path to it says.

Each step is taken from the open folder before it and follows no link, so that neither a path nor
somebody who changes folders meanwhile leads out of it.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from callboard.errors import CallboardError
from callboard.regular import read_regular, shown_name

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_STEPS = 64


def read_beneath(root: Path, path: str, limit_bytes: int, *, what: str, code: str) -> bytes:
    """The bytes of the regular file at `path`, relative to `root` or absolute below it.

    Raises `path_invalid` where the path leaves `root` or goes through a link, and the codes of
    `read_regular`.
    """
    *folders, name = _steps(root, path)
    descriptor = _open(str(root), path)
    try:
        for folder in folders:
            deeper = _open(folder, path, dir_fd=descriptor)
            # Ctrl-C may come right behind either call, and nothing is to be closed twice.
            above, descriptor = descriptor, deeper
            os.close(above)
        return read_regular(name, limit_bytes, what=what, dir_fd=descriptor, code=code)
    finally:
        os.close(descriptor)


def _steps(root: Path, path: str) -> list[str]:
    pure = PurePosixPath(path)
    if "\0" not in path and pure.is_absolute() and pure.is_relative_to(root):
        pure = pure.relative_to(root)
    steps = pure.parts
    if not steps or len(steps) > _MAX_STEPS or pure.is_absolute() or ".." in steps or "\0" in path:
        raise _outside(path)
    return list(steps)


def _open(name: str, path: str, dir_fd: int | None = None) -> int:
    try:
        return os.open(name, _FLAGS, dir_fd=dir_fd)
    except FileNotFoundError as error:
        raise CallboardError(
            "file_missing", f"{shown_name(path)!r} does not exist", "check the path"
        ) from error
    except (OSError, ValueError) as error:
        raise _outside(path) from error


def _outside(path: str) -> CallboardError:
    return CallboardError(
        "path_invalid",
        f"{shown_name(path)!r} is not the path of a file below the run's work tree",
        "give a path relative to the work tree, without .. and without links",
    )
