"""Events: appending an observation, and reading what happened.

Only observations are appended here. What an operation did it tells by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callboard.project import cursors, queries
from callboard.project.answers import EventAppended, EventPage
from callboard.project.operations import lookup
from callboard.project.unit import Scope, Unit


def append(
    unit: Unit,
    type: str,
    body: Mapping[str, Any],
    *,
    session: str | None,
    work: str | None,
    branch: str | None,
) -> EventAppended:
    """Write an observation. One of a session is on the session's work and branch.

    `branch` None: that of the session, else the selected one.
    """
    if session is not None:
        found = lookup.speaker(unit, session, work=work, branch=branch)
        work, branch = found.work, found.branch
    elif work is not None:
        lookup.work(unit, work)
    on = lookup.open_branch(unit, branch).name
    event = unit.observation(type, body, work=work, branch=on, session=session)
    return EventAppended(project_revision=unit.revision, event=event)


def listing(
    scope: Scope,
    *,
    session: str | None,
    branch: str | None,
    work: str | None,
    type: str | None,
    after: str | None,
    limit: int,
) -> EventPage:
    """Events that fit all filters exactly, the oldest first.

    A page has at most `limit` of them, and 1 MiB of JSON once it has one.
    """
    filters = {"session": session, "branch": branch, "work": work, "type": type}
    place = cursors.read(scope, "events", filters, after)
    found = queries.events(
        scope,
        session=session,
        branch=branch,
        work=work,
        type=type,
        after=place,
        limit=limit + 1,
    )
    placed = [(event.seq, event) for event in found]
    page, after = cursors.page(scope, "events", filters, placed, limit)
    return EventPage(project_revision=scope.revision, events=page, next=after)
