"""Taking the next piece of work: which one it is and that it is held now is decided at once.

Two who ask at the same moment never get the same one, and nobody has to try one after the other.
"""

from __future__ import annotations

from callboard.project.answers import WorkTaken
from callboard.project.operations import claims, lookup, ready, sessions
from callboard.project.operations.sessions import Worker
from callboard.project.unit import Nothing, Scope, Unit


class NothingReady(Nothing):
    """There is nothing to take."""


def take_next(unit: Unit, worker: Worker, branch: str | None, ttl_ms: int | None) -> WorkTaken:
    """A session with a claim at the first work that is ready. Raises `NothingReady`."""
    found = lookup.open_branch(unit, branch)
    items, _more = ready.listing(unit, found.name, limit=1)
    if not items:
        raise NothingReady
    session = sessions.begin(unit, items[0].key, found.name, worker)
    claim = claims.take(unit, session, ttl_ms)
    return WorkTaken(
        project_revision=unit.revision,
        branch=found.name,
        work=items[0],
        session=session,
        claim=claim,
        events=tuple(unit.events),
    )


def nothing(scope: Scope, branch: str | None) -> WorkTaken:
    """The answer that nothing was ready."""
    return WorkTaken(
        project_revision=scope.revision,
        branch=lookup.open_branch(scope, branch).name,
        work=None,
        session=None,
        claim=None,
        events=(),
    )
