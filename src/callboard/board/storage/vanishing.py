"""Writing where Git's maintenance removes things at the same time.

`git gc`, `repack`, `prune`, `pack-refs` and the deletion of a ref clear away empty folders at any
moment, so whoever puts a file into one makes the folder again and tries again. Nothing is removed
here, and the folder in which all of it lies is never made: a repository that is gone stays gone.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dulwich.file import SharedPerm, adjust_shared_perm

_ATTEMPTS = 10
_T = TypeVar("_T")


def retried(act: Callable[[], _T]) -> _T:
    """What `act` answers, tried anew when something it needs has vanished; ten times at most.

    The last `FileNotFoundError` is the caller's.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return act()
        except FileNotFoundError:
            # One run of Git's maintenance comes by each folder once.
            continue
    return act()


def make_folders(root: Path, folder: Path, shared: SharedPerm | None, unsynced: set[Path]) -> None:
    """Make `folder`, below `root`, and those above it that are missing.

    The parents of what was made, which have to be synced, join `unsynced`, also when it fails.
    Raises `FileNotFoundError` when `root`, or a folder just made, is gone, and `FileExistsError`
    when a file is in the way.
    """
    if folder == root or folder.is_dir():
        return
    make_folders(root, folder.parent, shared, unsynced)
    try:
        folder.mkdir()
    except FileExistsError:
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise
        # Another writer has just made it.
        return
    unsynced.add(folder.parent)
    adjust_shared_perm(folder, shared)
