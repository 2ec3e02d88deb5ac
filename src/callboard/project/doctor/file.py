"""What can be seen of a project's file from outside: its file system, its log, who may look."""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from callboard.errors import CallboardError
from callboard.project import mounts, sqlite_file, surroundings
from callboard.project.doctor.findings import finding, refused
from callboard.project.opening import Surroundings
from callboard.project.records import Finding


def place(file: Path, around: Surroundings) -> Iterator[Finding]:
    """Whether the file lies where a project may lie."""
    try:
        mounts.check(file, around.mounts)
    except CallboardError as error:
        yield refused(error)


def ignored(root: Path) -> Iterator[Finding]:
    """Whether Git would take the database along, where the project lies in a repository."""
    kept = surroundings.not_ignored(root) if surroundings.work_tree_of(root) else ()
    if kept:
        yield finding(
            "database_not_ignored",
            f"no .gitignore keeps {', '.join(kept)} out of Git",
            subject=kept[0],
        )


def modes(file: Path) -> Iterator[Finding]:
    """Whether the file keeps its log, and keeps others out."""
    if sqlite_file.on_read_only_disk(file) and sqlite_file.has_no_log(file):
        yield finding(
            "disk_readonly",
            "the disk can only be read and there is no log, so only the doctor can look",
            subject=file.name,
        )
    try:
        keeps_wal = sqlite_file.keeps_wal(file)
    except sqlite3.Error:
        # Whatever it is that cannot be read, the look inside tells it.
        keeps_wal = True
    if not keeps_wal:
        yield finding("journal_mode", "the database keeps no write-ahead log", subject=file.name)
    for path, allowed in ((file, 0o600), (file.parent, 0o700)):
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if mode & ~allowed & 0o077:
            yield finding(
                "file_mode",
                f"other users may look into {str(path)!r} (mode {mode:04o})",
                subject=path.name,
                hinted={"wanted": f"{allowed:o}", "path": shlex.quote(str(path))},
                mode=f"{mode:04o}",
            )
