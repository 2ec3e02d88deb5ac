"""Putting work that was read from files in the place of what was indexed before.

The reader of work files is left out, so that a test can index what no file could say.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from callboard.canonical import digest
from callboard.project.access import write
from callboard.project.answers import SourceIndexed
from callboard.project.groups.group import order
from callboard.project.operations import work
from callboard.project.project import Project
from callboard.project.records import Goal, SourceFile, WorkItem


def replace(
    project: Project,
    items: Sequence[WorkItem],
    goals: Sequence[Goal] = (),
    files: Sequence[SourceFile] = (),
    *,
    expected_revision: int | None = None,
    request_id: str | None = None,
) -> SourceIndexed:
    """Replace the projection of `project` under one revision. Raises `name_taken`."""
    content = msgspec.to_builtins([list(items), list(goals), list(files)])
    # One digest: the lists may be longer than a document's may be.
    intent = {"content_sha256": [digest(part) for part in _pieces(content)]}
    return write(
        project._key,
        order("source index", intent, expected_revision, request_id),
        SourceIndexed,
        lambda unit: work.replace(unit, items, goals, files),
    )


def _pieces(content: list[list[object]]) -> list[list[object]]:
    return [
        part[start : start + 1000]
        for part in content
        for start in range(0, max(len(part), 1), 1000)
    ]
