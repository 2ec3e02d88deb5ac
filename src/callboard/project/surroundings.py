"""What lies around a project's folder: a project further up, and whether Git would take its files.

It looks at names and at the ignore files of Git, runs nothing, and loads no database's library.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

FOLDER = ".callboard"
FILES = ("project.db", "project.db-wal", "project.db-shm")
"""The database, and what SQLite keeps beside it."""

_MAX_BYTES = 64 * 1024


def project_at_or_above(folder: Path) -> Path | None:
    """The next folder upward with a project, within the repository and the user's own folders."""
    user = os.geteuid()
    for one in (folder, *folder.parents):
        try:
            if one.stat().st_uid != user:
                return None
            if (one / FOLDER / FILES[0]).is_file():
                return one
            if (one / ".git").exists():
                return None
        except OSError:
            return None
    return None


def work_tree_of(root: Path) -> Path | None:
    """The folder at or above `root` that is a repository of Git."""
    for one in (root, *root.parents):
        try:
            if (one / ".git").exists():
                return one
        except OSError:
            return None
    return None


def not_ignored(root: Path) -> tuple[str, ...]:
    """Those of the database's files that no ignore file keeps out of Git.

    What `.git/info/exclude` and the user's own settings say is not looked at: they are not of the
    folder, and nobody else has them.
    """
    top = work_tree_of(root) or root
    within = (root / FOLDER, *(one for one in (root, *root.parents) if one.is_relative_to(top)))
    return tuple(
        name
        for name in FILES
        if not any(_is_ignored(folder, root / FOLDER / name) for folder in within)
    )


def _is_ignored(folder: Path, file: Path) -> bool:
    """Whether the ignore file of a folder covers a file, or a folder that it lies in."""
    steps = file.relative_to(folder).parts
    found = False
    for pattern in _patterns(folder / ".gitignore"):
        is_back, text = pattern.startswith("!"), pattern.lstrip("!")
        if any(
            _fits(text, steps[:depth], depth < len(steps)) for depth in range(1, len(steps) + 1)
        ):
            found = not is_back
    return found


def _patterns(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.rstrip()


def _fits(pattern: str, steps: tuple[str, ...], is_folder: bool) -> bool:
    """Whether a pattern covers the path of these steps: as Git has it, but for a `**` inside."""
    if pattern.endswith("/") and not is_folder:
        return False
    bare = pattern.rstrip("/").removeprefix("**/")
    if "/" not in bare:
        return fnmatchcase(steps[-1], bare)
    wanted = bare.lstrip("/").split("/")
    return len(wanted) == len(steps) and all(map(fnmatchcase, steps, wanted))
