"""A project that the first release wrote, as it lay on a disk, and what is known to be in it.

It is made anew from a dump of its database, whose texts of definitions and rows are kept to the
letter. Sessions have followed one another on it, work was completed, claims lapsed and were let go.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

FIRST = Path(__file__).resolve().parent / "first"

CLOCK_MS = 1_796_078_326_829
"""The time of its last change."""
REVISION = 18
CODEX = "s_d3df2bb0add4b5a5697a4443c286e7b3"
CLAUDE = "s_6101b6bf9a27497ba12583809dc6b9e5"
INTERRUPTED = "s_75b8a5e4679060a1e9a3f0d6da778ad0"
HOLDER = "s_c37330e57274c711bfa1d3f526c2ac64"
LAPSED = "s_cf17189e5bb3944637cfcdf2666c58af"
EVENTS = (
    "project.created source.indexed session.started claim.acquired session.checkpointed "
    "session.started claim.transferred claim.acquired session.handed_off evidence.added "
    "work.completed claim.released session.ended branch.created branch.created branch.closed "
    "branch.selected session.started claim.acquired note.taken claim.expired session.interrupted "
    "session.started claim.acquired session.started claim.acquired evidence.added"
).split()


def lay(root: Path) -> Path:
    """Put it into the new folder `root`; the database."""
    folder = root / ".callboard"
    folder.mkdir(parents=True, mode=0o700)
    shutil.copy(FIRST / "work.yaml", root / "work.yaml")
    file = folder / "project.db"
    file.touch(mode=0o600)
    connection = sqlite3.connect(file)
    connection.executescript((FIRST / "project.sql").read_text("utf-8"))
    connection.close()
    return file
