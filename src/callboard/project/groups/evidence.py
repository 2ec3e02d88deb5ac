"""`project.evidence`: show that acceptance criteria are met."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.project import names
from callboard.project.access import read, write
from callboard.project.answers import EvidenceAdded, EvidencePage
from callboard.project.groups.group import Group, order
from callboard.project.operations import evidence
from callboard.project.operations.evidence import Shown


class EvidenceKept(Group):
    """Evidence of one project."""

    __slots__ = ()

    def add(
        self,
        kind: str,
        summary: str,
        *,
        session: str | None = None,
        work: str | None = None,
        branch: str | None = None,
        covers: Sequence[str] = (),
        ref: str | None = None,
        sha256: str | None = None,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> EvidenceAdded:
        """Keep evidence of `session`, or of `work` on a branch.

        `covers`: the acceptance criteria of the work that it shows, in the work's own words.
        Raises `criterion_unknown`, `session_mismatch`, `session_not_active`, `branch_closed`.
        """
        shown = Shown(
            names.name(kind, "kind"),
            names.text(summary, "summary"),
            names.texts(covers, "criteria"),
            names.optional_name(ref, "reference"),
            names.optional_sha256(sha256, "digest"),
        )
        of = names.optional_name(session, "session")
        on = names.optional_name(branch, "branch")
        item = names.optional_name(work, "work")
        intent = {
            "kind": shown.kind,
            "summary": shown.summary,
            "covers": list(shown.covers),
            "ref": shown.ref,
            "sha256": shown.sha256,
            "session": of,
            "work": item,
            "branch": on,
        }
        return write(
            self._key,
            order("evidence add", intent, expected_revision, request_id),
            EvidenceAdded,
            lambda unit: evidence.add(unit, shown, session=of, work=item, branch=on),
        )

    def list(
        self,
        *,
        work: str | None = None,
        branch: str | None = None,
        current: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> EvidencePage:
        """Evidence as it counts on a branch; `current` leaves out what another branch shows."""
        of = names.optional_name(work, "work")
        on = names.optional_name(branch, "branch")
        only = bool(current)
        place = names.cursor(after)
        size = names.page(limit)
        return read(
            self._key,
            lambda scope: evidence.listing(
                scope, work=of, branch=on, current=only, after=place, limit=size
            ),
        )
