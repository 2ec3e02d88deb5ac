"""`project.events`: write what was seen, read what happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callboard.canonical import decode, encode
from callboard.errors import CallboardError
from callboard.project import names
from callboard.project.access import read, write
from callboard.project.answers import EventAppended, EventPage
from callboard.project.groups.group import Group, order
from callboard.project.operations import events
from callboard.project.records import MAIN


class Events(Group):
    """The history of one project."""

    __slots__ = ()

    def append(
        self,
        type: str,
        body: Mapping[str, Any],
        *,
        session: str | None = None,
        work: str | None = None,
        branch: str | None = None,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> EventAppended:
        """Write an observation. Of a session it is on the session's work and branch.

        A branch that is named, `main` too, must be the session's. Raises `event_type_reserved`,
        `session_mismatch`, `session_not_active`, `branch_closed`, `body_invalid`, `body_limit`.
        """
        kind = names.event_type(type)
        of = names.optional_name(session, "session")
        on = names.optional_name(branch, "branch")
        item = names.optional_name(work, "work")
        own = _body(body)
        intent = {"type": kind, "body": own, "session": of, "work": item, "branch": on}
        return write(
            self._key,
            order("event append", intent, expected_revision, request_id),
            EventAppended,
            lambda unit: events.append(unit, kind, own, session=of, work=item, branch=on),
        )

    def append_in_branch(
        self,
        branch: str | None,
        type: str,
        body: Mapping[str, Any],
        *,
        session: str | None = None,
        work: str | None = None,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> EventAppended:
        """As `append`, on a branch that was chosen: None is main, nothing is inferred."""
        return self.append(
            type,
            body,
            session=session,
            work=work,
            branch=MAIN if branch is None else branch,
            expected_revision=expected_revision,
            request_id=request_id,
        )

    def list(
        self,
        *,
        session: str | None = None,
        branch: str | None = None,
        work: str | None = None,
        type: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> EventPage:
        """Events that fit all filters exactly, the oldest first; no branch: those of all.

        Raises `cursor_invalid`.
        """
        filters = {
            "session": names.optional_name(session, "session"),
            "branch": names.optional_name(branch, "branch"),
            "work": names.optional_name(work, "work"),
            "type": names.optional_name(type, "event type"),
        }
        place = names.cursor(after)
        size = names.page(limit)
        return read(
            self._key,
            lambda scope: events.listing(scope, **filters, after=place, limit=size),
        )


def _body(body: object) -> dict[str, Any]:
    """A copy of the body, which whoever called may go on changing."""
    if not isinstance(body, Mapping):
        raise CallboardError(
            "body_invalid", f"the body {names.shown(body)} is no JSON object", "give an object"
        )
    copy = decode(encode(dict(body)))
    assert isinstance(copy, dict)
    return copy
