"""`project.sessions`: begin, look, keep where one stands, stop, and go on."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from callboard.errors import CallboardError
from callboard.project import names
from callboard.project.access import read, write
from callboard.project.answers import (
    CheckpointSaved,
    SessionClosed,
    SessionPage,
    SessionShown,
    SessionStarted,
    WorkTaken,
)
from callboard.project.groups.group import Group, order
from callboard.project.operations import sessions, succession, taking
from callboard.project.operations.sessions import Standing, Worker
from callboard.project.records import Artifact


class Sessions(Group):
    """Sessions of one project."""

    __slots__ = ()

    def start(
        self,
        work: str,
        agent: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        branch: str | None = None,
        claim: bool = False,
        ttl_ms: int | None = None,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> SessionStarted:
        """A session at `work`; with `claim` it holds the work, for `ttl_ms` or without an end.

        Raises `not_found`, `branch_closed`, `claim_held`, `ttl_invalid`.
        """
        worker = _worker(agent, provider, model)
        found = names.name(work, "work")
        on = names.optional_name(branch, "branch")
        holds = bool(claim)
        ttl = names.ttl_with(ttl_ms, claim=holds)
        intent = {
            "work": found,
            "worker": _intent(worker),
            "branch": on,
            "claim": holds,
            "ttl_ms": ttl,
        }
        return write(
            self._key,
            order("session start", intent, expected_revision, request_id),
            SessionStarted,
            lambda unit: sessions.start(unit, found, worker, on, claim=holds, ttl_ms=ttl),
        )

    def next(
        self,
        agent: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        branch: str | None = None,
        ttl_ms: int | None = None,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> WorkTaken:
        """A session with a claim at the first ready work of a branch; an empty answer for none.

        Raises `not_found`, `branch_closed`, `ttl_invalid`.
        """
        worker = _worker(agent, provider, model)
        on = names.optional_name(branch, "branch")
        ttl = names.ttl(ttl_ms)
        intent = {"worker": _intent(worker), "branch": on, "ttl_ms": ttl}
        wanted = order("session next", intent, expected_revision, request_id)
        try:
            return write(
                self._key,
                wanted,
                WorkTaken,
                lambda unit: taking.take_next(unit, worker, on, ttl),
            )
        except taking.NothingReady:
            pass
        return read(self._key, lambda scope: taking.nothing(scope, on))

    def show(
        self,
        session: str | None = None,
        *,
        work: str | None = None,
        agent: str | None = None,
        branch: str | None = None,
    ) -> SessionShown:
        """The named session, or the only active one on the branch that fits.

        Raises `not_found`, `session_ambiguous` (details: candidates), `session_mismatch`.
        """
        wanted = names.optional_name(session, "session")
        of = names.optional_name(work, "work")
        who = names.optional_name(agent, "agent")
        on = names.optional_name(branch, "branch")
        return read(
            self._key,
            lambda scope: sessions.show(scope, wanted, work=of, agent=who, branch=on),
        )

    def list(
        self,
        *,
        active: bool = False,
        work: str | None = None,
        agent: str | None = None,
        branch: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> SessionPage:
        """Sessions of all branches, or of the one named, the latest first."""
        of = names.optional_name(work, "work")
        who = names.optional_name(agent, "agent")
        on = names.optional_name(branch, "branch")
        only = bool(active)
        place = names.cursor(after)
        size = names.page(limit)
        return read(
            self._key,
            lambda scope: sessions.listing(
                scope, active=only, work=of, agent=who, branch=on, after=place, limit=size
            ),
        )

    def checkpoint(
        self,
        session: str,
        digest: str,
        next_action: str,
        *,
        open_loops: Sequence[str] = (),
        context_sha256: str | None = None,
        artifacts: Sequence[Artifact] = (),
        agent: str | None = None,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> CheckpointSaved:
        """Keep where an active session stands. Raises `session_not_active`, `session_mismatch`."""
        wanted = names.name(session, "session")
        standing = Standing(
            names.text(digest, "digest"),
            names.text(next_action, "next action"),
            names.texts(open_loops, "open loops"),
            names.optional_sha256(context_sha256, "context's digest"),
            tuple(map(_artifact, names.several(artifacts, "artifacts"))),
            names.optional_name(agent, "agent"),
        )
        intent = {
            "session": wanted,
            "digest": standing.digest,
            "next_action": standing.next_action,
            "open_loops": list(standing.open_loops),
            "context_sha256": standing.context_sha256,
            "artifacts": msgspec.to_builtins(list(standing.artifacts)),
            "agent": standing.agent,
        }
        return write(
            self._key,
            order("session checkpoint", intent, expected_revision, request_id),
            CheckpointSaved,
            lambda unit: sessions.checkpoint(unit, wanted, standing),
        )

    def interrupt(
        self,
        session: str,
        *,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> SessionClosed:
        """Stop an active session, which may be resumed. Raises `session_not_active`."""
        wanted = names.name(session, "session")
        return write(
            self._key,
            order("session interrupt", {"session": wanted}, expected_revision, request_id),
            SessionClosed,
            lambda unit: sessions.interrupt(unit, wanted),
        )

    def end(
        self,
        session: str,
        *,
        outcome: str | None = None,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> SessionClosed:
        """End a session for good. Raises `session_not_active`."""
        wanted = names.name(session, "session")
        how = names.optional_text(outcome, "outcome")
        intent = {"session": wanted, "outcome": how}
        return write(
            self._key,
            order("session end", intent, expected_revision, request_id),
            SessionClosed,
            lambda unit: sessions.end(unit, wanted, how),
        )

    def handoff(
        self,
        session: str,
        agent: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        ttl_ms: int | None = None,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> SessionStarted:
        """Give the work of an active session to a new one of `agent`, on the same branch.

        A live claim goes over with the end it has, or with a new one of `ttl_ms`; where there is
        none, `ttl_ms` asks for one. Raises `successor_exists`, `session_not_active`,
        `branch_closed`, `claim_held`, `ttl_invalid`.
        """
        wanted = names.name(session, "session")
        worker = _worker(agent, provider, model)
        ttl = names.ttl(ttl_ms)
        intent = {"session": wanted, "worker": _intent(worker), "ttl_ms": ttl}
        return write(
            self._key,
            order("session handoff", intent, expected_revision, request_id),
            SessionStarted,
            lambda unit: succession.handoff(unit, wanted, worker, ttl),
        )

    def resume(
        self,
        session: str,
        agent: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        ttl_ms: int | None = None,
        claim: bool = True,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> SessionStarted:
        """Go on with an interrupted session, or an active one that nobody can ask any more.

        Claims as with `handoff`; without `claim` nothing is taken over. Raises
        `branch_not_current` and as `handoff`.
        """
        wanted = names.name(session, "session")
        worker = _worker(agent, provider, model)
        holds = bool(claim)
        ttl = names.ttl_with(ttl_ms, claim=holds)
        intent = {"session": wanted, "worker": _intent(worker), "ttl_ms": ttl, "claim": holds}
        return write(
            self._key,
            order("session resume", intent, expected_revision, request_id),
            SessionStarted,
            lambda unit: succession.resume(unit, wanted, worker, ttl, inherit=holds),
        )


def _worker(agent: str, provider: str | None, model: str | None) -> Worker:
    return Worker(
        names.name(agent, "agent"),
        names.optional_name(provider, "provider"),
        names.optional_name(model, "model"),
    )


def _intent(worker: Worker) -> dict[str, str | None]:
    return {"agent": worker.agent, "provider": worker.provider, "model": worker.model}


def _artifact(one: object) -> Artifact:
    if not isinstance(one, Artifact):
        raise CallboardError(
            "value_invalid",
            f"the artifact {names.shown(one)} is none",
            "give each artifact by its reference and its SHA-256",
            {"field": "artifacts"},
        )
    return Artifact(
        ref=names.name(one.ref, "artifact"), sha256=names.sha256(one.sha256, "artifact's digest")
    )
