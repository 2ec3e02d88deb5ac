"""Other versions of the package, for other processes: a copy with some lines changed.

So a guard can be taken away, or a later schema be there, while the code under test stays as it is.
A change that does not fit the code as often as it says fails, so none is lost unseen.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.ambient import ROOT

SOURCE = ROOT / "src" / "callboard"


@dataclass(frozen=True)
class Change:
    """In the project wing `before` becomes `after`.

    It stands there `times`; 0: at least once. `file`: only in files that fit this pattern, so that
    a text that moves to another module is found there.
    """

    before: str
    after: str
    file: str = "*.py"
    times: int = 1


def patched(folder: Path, changes: Sequence[Change]) -> Path:
    """A folder for PYTHONPATH with a changed copy of the package."""
    copy = folder / "callboard"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for change in changes:
        _carry_out(change, copy / "project")
    return folder


def _carry_out(change: Change, wing: Path) -> None:
    texts = {path: path.read_text("utf-8") for path in sorted(wing.rglob(change.file))}
    count = sum(text.count(change.before) for text in texts.values())
    assert count == change.times or (count and not change.times), (count, change)
    for path, text in texts.items():
        if change.before in text:
            path.write_text(text.replace(change.before, change.after), "utf-8")


NEXT_STEP = '''"""A later step."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sessions", sa.Column("mood", sa.Text()))
    op.execute("UPDATE sessions SET mood = 'fine'")
'''


def next_version(folder: Path) -> Path:
    """A version of the package whose schema is one step further."""
    package = patched(folder, [Change('VERSION = "0001"', 'VERSION = "0002"')])
    step = package / "callboard" / "project" / "migrations" / "versions" / "v0002_more.py"
    step.write_text(NEXT_STEP, "utf-8")
    return package
