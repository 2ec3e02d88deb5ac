"""`project.work`: the work that the source files list, and completing it."""

from __future__ import annotations

from callboard.project import names
from callboard.project.access import read, store_of, write
from callboard.project.answers import (
    Status,
    WorkCompleted,
    WorkPage,
    WorkShown,
)
from callboard.project.groups.group import Group, order
from callboard.project.operations import completion, work
from callboard.project.source.fields import STATUSES
from callboard.project.source.place import Place


class Work(Group):
    """The work of one project."""

    __slots__ = ()

    def show(self, key: str, *, branch: str | None = None, session: str | None = None) -> WorkShown:
        """One piece of work as it stands on a branch, the selected one where none is named.

        With its readiness and each reason against it, for `session` where one is named: its own
        claim is no hindrance. Raises `not_found`, `session_mismatch`.
        """
        wanted = names.name(key, "work")
        on = names.optional_name(branch, "branch")
        of = names.optional_name(session, "session")
        return read(self._key, lambda scope: work.show(scope, wanted, branch=on, session=of))

    def list(
        self,
        *,
        status: str | None = None,
        branch: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> WorkPage:
        """Work in the order of its files, as it stands on a branch: the selected one, or another.

        Raises `not_found`, `cursor_invalid`, `value_invalid` for a status that no file may have.
        """
        wanted = names.one_of(status, "status", STATUSES)
        on = names.optional_name(branch, "branch")
        place = names.cursor(after)
        size = names.page(limit)
        return read(
            self._key,
            lambda scope: work.listing(scope, status=wanted, branch=on, after=place, limit=size),
        )

    def ready(self, *, branch: str | None = None, limit: int | None = None) -> Status:
        """The work that can be begun on a branch, the most urgent first, then as in its files."""
        on = names.optional_name(branch, "branch")
        size = names.page(limit)
        return read(self._key, lambda scope: work.status(scope, branch=on, limit=size))

    def complete(
        self,
        key: str,
        *,
        session: str,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> WorkCompleted:
        """Write that work is complete on the branch of `session`, which holds it.

        Each acceptance criterion needs evidence that is current there. The work file is not
        changed. Raises `claim_not_holder`, `work_not_ready`, `acceptance_uncovered`,
        `source_conflict` where the file changed since it was indexed, `session_mismatch`,
        `session_not_active`, `branch_closed`.
        """
        wanted = names.name(key, "work")
        of = names.name(session, "session")
        place = Place(store_of(self._key).backing.root)
        return write(
            self._key,
            order("work complete", {"work": wanted, "session": of}, expected_revision, request_id),
            WorkCompleted,
            lambda unit: completion.complete(unit, place, wanted, of),
        )
