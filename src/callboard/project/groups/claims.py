"""`project.claims`: hold the work of a session, hold it longer, and let it go."""

from __future__ import annotations

from callboard.errors import CallboardError
from callboard.project import names
from callboard.project.access import read, write
from callboard.project.answers import ClaimChanged, ClaimShown
from callboard.project.groups.group import Group, order
from callboard.project.operations import claims


class Claims(Group):
    """Claims of one project."""

    __slots__ = ()

    def acquire(
        self,
        session: str,
        *,
        ttl_ms: int | None = None,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> ClaimChanged:
        """Hold the session's work for `ttl_ms`, or without an end; a lapsed claim is taken over.

        Raises `claim_held` (details: holder and end), `session_not_active`, `branch_closed`,
        `ttl_invalid`.
        """
        wanted = names.name(session, "session")
        ttl = names.ttl(ttl_ms)
        return write(
            self._key,
            order(
                "claim acquire", {"session": wanted, "ttl_ms": ttl}, expected_revision, request_id
            ),
            ClaimChanged,
            lambda unit: claims.acquire(unit, wanted, ttl),
        )

    def renew(
        self,
        session: str,
        ttl_ms: int,
        *,
        at_least: bool = False,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> ClaimChanged:
        """Let the session's live claim end `ttl_ms` from now, which may be earlier than before.

        `at_least`: where it would end later than that, or never, it does. Raises
        `claim_not_holder`, `session_not_active`, `branch_closed`, `ttl_invalid`.
        """
        wanted = names.name(session, "session")
        ttl = names.ttl(ttl_ms)
        if ttl is None:
            raise CallboardError(
                "ttl_invalid",
                "no time to live is given",
                "say for how many milliseconds from now the claim is to last",
            )
        only_later = bool(at_least)
        intent: dict[str, object] = {"session": wanted, "ttl_ms": ttl}
        if only_later:
            # Left away otherwise, so that requests from before there was this are still the same.
            intent["at_least"] = True
        return write(
            self._key,
            order("claim renew", intent, expected_revision, request_id),
            ClaimChanged,
            lambda unit: claims.renew(unit, wanted, ttl, at_least=only_later),
        )

    def release(
        self,
        session: str,
        *,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> ClaimChanged:
        """Let the session's live claim go. Raises `claim_not_holder`."""
        wanted = names.name(session, "session")
        return write(
            self._key,
            order("claim release", {"session": wanted}, expected_revision, request_id),
            ClaimChanged,
            lambda unit: claims.release(unit, wanted),
        )

    def show(self, work: str) -> ClaimShown:
        """The claim on a piece of work, also a lapsed one that nobody took over."""
        wanted = names.name(work, "work")
        return read(self._key, lambda scope: claims.show(scope, wanted))
