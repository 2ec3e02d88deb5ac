"""`project.source`: from files to work, and reviewed changes back into the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn, TypeVar

import msgspec

from callboard.errors import CallboardError
from callboard.project import names
from callboard.project.access import (
    Key,
    not_again,
    read,
    refuse_plainly,
    store_of,
    was_answered,
    write,
)
from callboard.project.answers import Answer, SourceIndexed
from callboard.project.groups.group import Group, order
from callboard.project.operations import sources
from callboard.project.source import patching
from callboard.project.source.answers import Change, SourcePatched, SourceScanned
from callboard.project.source.patching import Made
from callboard.project.source.place import Place
from callboard.project.source.reading import read_work
from callboard.project.store import Order
from callboard.project.unit import Unit

A = TypeVar("A", bound=Answer)


class Source(Group):
    """The source files of one project."""

    __slots__ = ()

    def scan(self) -> SourceScanned:
        """The work files as they are now, with all faults; nothing is written.

        Raises `source_missing`, `source_unsafe`, `file_unreadable` or `resource_limit` where
        work.yaml itself cannot be read.
        """
        found = refuse_plainly(lambda: read_work(_place(self._key)))
        return read(self._key, lambda scope: sources.scan(scope, found))

    def index(
        self, *, expected_revision: int | None = None, request_id: str | None = None
    ) -> SourceIndexed:
        """Put what the files say in the place of what was indexed before.

        Raises `source_invalid` with every fault, `source_conflict` where a file changes meanwhile,
        and as `scan`.
        """
        wanted = order("source index", {}, expected_revision, request_id)
        place = _place(self._key)
        if self._answered(wanted):
            return write(self._key, wanted, SourceIndexed, not_again)
        try:
            found = refuse_plainly(lambda: read_work(place).checked())
        except CallboardError as error:
            return self._answered_since(wanted, SourceIndexed, error)
        return write(
            self._key, wanted, SourceIndexed, lambda unit: sources.index(unit, place, found)
        )

    def patch(
        self,
        changes: Sequence[Change],
        *,
        sha256: str | None = None,
        accept: bool = False,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> SourcePatched:
        """Changes of one work file: shown as a difference, and with `accept` written and indexed.

        `sha256` is the fingerprint of the file that was reviewed; where none is given, accepting
        holds it against the one that was indexed. Raises `source_conflict` where the file has
        another one, which then stays as it is; `source_invalid`, `not_found`, `field_unknown`,
        `value_invalid`, `source_change_invalid`, `source_edit_refused`, `source_busy`,
        `source_unsafe`, `source_unwritable`.
        """
        place = _place(self._key)
        fingerprint = names.optional_sha256(sha256, "fingerprint")
        asked = patching.checked(changes)
        if not accept:
            made = refuse_plainly(lambda: patching.propose(place, asked, sha256=fingerprint))
            return read(
                self._key,
                lambda scope: SourcePatched(
                    project_revision=scope.revision, accepted=False, proposal=made.proposal
                ),
            )
        intent = {
            "changes": [
                {"kind": type(change).__name__} | msgspec.to_builtins(change) for change in asked
            ],
            "sha256": fingerprint,
        }
        wanted = order("source patch", intent, expected_revision, request_id)
        if self._answered(wanted):
            return write(self._key, wanted, SourcePatched, not_again)
        try:
            made = self._reviewed(place, asked, fingerprint)
        except CallboardError as error:
            return self._answered_since(wanted, SourcePatched, error)
        return write(
            self._key, wanted, SourcePatched, lambda unit: sources.patch(unit, place, made)
        )

    def _reviewed(self, place: Place, changes: Sequence[Change], sha256: str | None) -> Made:
        """The proposal for bytes that were reviewed: of that fingerprint, or as indexed."""
        made = refuse_plainly(lambda: patching.propose(place, changes, sha256=sha256))
        if sha256 is None:
            read(self._key, lambda scope: sources.check_reviewed(scope, made))
        return made

    def _answered_since(self, wanted: Order, answer: type[A], refusal: CallboardError) -> A:
        """The answer of the same request, which another process may be carrying out right now.

        Then the files that were refused are those that it wrote. Who waits for the place of writers
        finds its receipt, or none: then the refusal stands.
        """
        if wanted.request_id is None:
            raise refusal

        def refuse(_unit: Unit) -> NoReturn:
            raise refusal

        # What the caller saw is not compared, as nothing is changed.
        return write(self._key, replace(wanted, expected_revision=None), answer, refuse)

    def _answered(self, wanted: Order) -> bool:
        return refuse_plainly(lambda: was_answered(store_of(self._key), wanted))


def _place(key: Key) -> Place:
    return Place(store_of(key).backing.root)
