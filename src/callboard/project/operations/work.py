"""The projection of the source files: work and goals as the files had them when they were read.

The files are the authority; the projection is replaced as a whole and can be made again any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callboard.canonical import encode
from callboard.errors import CallboardError
from callboard.project import cursors, names, queries, schema
from callboard.project.answers import (
    SourceIndexed,
    Status,
    WorkPage,
    WorkShown,
)
from callboard.project.operations import lookup, ready
from callboard.project.queries.projection import replace_projection
from callboard.project.records import (
    Goal,
    ProjectInfo,
    SourceFile,
    WorkItem,
)
from callboard.project.unit import Scope, Unit

READY_SHOWN = 20
"""How much ready work a project at a glance shows."""

CLAIMS_SHOWN = 20
"""How many claims it shows."""


def replace(
    unit: Unit,
    items: Sequence[WorkItem],
    goals: Sequence[Goal] = (),
    files: Sequence[SourceFile] = (),
) -> SourceIndexed:
    """Put these in the place of all that was indexed before.

    Keys that would be confused with one another are refused with `name_taken`, all else is for the
    reader of the files to judge. Sessions, claims and events stay as they are, also of work that
    is no longer in any file.
    """
    _check_twins("work", [item.key for item in items])
    _check_twins("goal", [goal.key for goal in goals])
    edges = [
        {"work": item.key, "depends_on": other}
        for item in items
        for other in dict.fromkeys(item.depends_on)
    ]
    replace_projection(
        unit,
        {
            schema.work_items: [_item_row(item) for item in items],
            schema.work_dependencies: edges,
            schema.goals: [_goal_row(goal) for goal in goals],
            schema.sources: [_source_row(file, unit.revision) for file in files],
        },
    )
    event = unit.event(
        "source.indexed",
        {
            "items": len(items),
            "goals": len(goals),
            "files": [{"path": file.path, "sha256": file.sha256} for file in files[:100]],
        },
    )
    return SourceIndexed(
        project_revision=unit.revision,
        items=len(items),
        goals=len(goals),
        files=tuple(files),
        event=event,
    )


def show(scope: Scope, key: str, *, branch: str | None, session: str | None) -> WorkShown:
    """One piece of work as it stands on a branch, for a session of it where one is named."""
    lookup.work(scope, key)
    if session is not None:
        found = lookup.agrees(lookup.session(scope, session), work=key, branch=branch)
        branch = found.branch
    on = lookup.branch(scope, branch).name
    item = queries.work_item(scope, key)
    assert item is not None
    return WorkShown(
        project_revision=scope.revision,
        branch=on,
        work=ready.views(scope, on, [item], session=session)[0],
    )


def status(scope: Scope, *, branch: str | None, limit: int) -> Status:
    """The project at a glance, with the first work that can be begun."""
    on = lookup.branch(scope, branch).name
    found, more = ready.listing(scope, on, limit=limit)
    return Status(
        project_revision=scope.revision,
        project=ProjectInfo(id=scope.project, key=scope.key, revision=scope.revision),
        branch=on,
        counts=queries.counts(scope),
        ready=found,
        more=more,
        claims=tuple(queries.open_claims(scope, limit=CLAIMS_SHOWN)),
        lapsed=queries.lapsed(scope),
        completed=queries.completed_count(scope, on),
    )


def listing(
    scope: Scope, *, status: str | None, branch: str | None, after: str | None, limit: int
) -> WorkPage:
    """Work in the order of its files, as it stands on a branch."""
    on = lookup.branch(scope, branch).name
    filters = {"status": status}
    place = cursors.read(scope, "work", filters, after)
    found = queries.work_items(scope, status=status, after=place, limit=limit + 1)
    page, after = cursors.page(scope, "work", filters, found, limit)
    return WorkPage(
        project_revision=scope.revision,
        branch=on,
        work=ready.views(scope, on, page),
        next=after,
        status=status,
    )


def _check_twins(kind: str, keys: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for key in keys:
        twin = names.twin(names.name(key, f"{kind} key"))
        first = seen.get(twin)
        seen[twin] = key
        if first is not None:
            what = "stands twice" if first == key else f"would be confused with {first!r}"
            raise CallboardError(
                "name_taken",
                f"the {kind} {names.shown(key)} {what}",
                "give each a key of its own",
                {"kind": kind, "name": key, "first": first},
            )


def _item_row(item: WorkItem) -> dict[str, Any]:
    lists = ("acceptance", "depends_on", "paths", "tags")
    return {
        "key": item.key,
        "twin": names.twin(item.key),
        **{
            name: getattr(item, name)
            for name in (
                "title status goal next_action workstream owner priority source_file "
                "source_sha256".split()
            )
        },
        **{name: encode(list(getattr(item, name))).decode() for name in lists},
    }


def _goal_row(goal: Goal) -> dict[str, Any]:
    return {
        "key": goal.key,
        "twin": names.twin(goal.key),
        "title": goal.title,
        "status": goal.status,
        "source_file": goal.source_file,
        "source_sha256": goal.source_sha256,
    }


def _source_row(file: SourceFile, revision: int) -> dict[str, Any]:
    return {
        "path": file.path,
        "sha256": file.sha256,
        "size_bytes": file.size_bytes,
        "indexed_revision": revision,
    }
