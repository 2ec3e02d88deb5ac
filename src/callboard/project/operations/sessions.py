"""Sessions: that an agent is at a piece of work, where it stands, and that it stopped.

What follows a session is in `succession`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from callboard.canonical import encode
from callboard.errors import CallboardError
from callboard.project import cursors, names, queries, schema
from callboard.project.answers import (
    CheckpointSaved,
    SessionClosed,
    SessionPage,
    SessionShown,
    SessionStarted,
)
from callboard.project.operations import claims, lookup, ready
from callboard.project.records import (
    UNDECLARED,
    Artifact,
    Checkpoint,
    Claim,
    Session,
)
from callboard.project.unit import Scope, Unit, new_id

MAX_CANDIDATES = 20


@dataclass(frozen=True, slots=True)
class Worker:
    """Who works, as they say themselves."""

    agent: str
    provider: str | None = None
    model: str | None = None


def start(
    unit: Unit, work: str, worker: Worker, branch: str | None, *, claim: bool, ttl_ms: int | None
) -> SessionStarted:
    """A session at `work`, on the selected branch where none is named, with a claim or without."""
    lookup.work(unit, work)
    found = lookup.open_branch(unit, branch)
    session = begin(unit, work, found.name, worker)
    taken = claims.take(unit, session, ttl_ms) if claim else None
    remarks = ready.hindrances(unit, session) if claim else ()
    return started(unit, session, taken, remarks)


def begin(
    unit: Unit, work: str, branch: str, worker: Worker, predecessor: str | None = None
) -> Session:
    """Write a new session."""
    session = Session(
        id=new_id("s"),
        work=work,
        branch=branch,
        agent=worker.agent,
        provider=worker.provider,
        model=worker.model,
        state="active",
        predecessor=predecessor,
        started_at_ms=unit.now_ms,
        ended_at_ms=None,
    )
    unit.add(
        schema.sessions,
        **msgspec.structs.asdict(session),
        position=queries.next_position(unit, schema.sessions),
    )
    body: dict[str, object] = {
        "session": session.id,
        "agent": worker.agent,
        "provider": worker.provider,
        "model": worker.model,
        "predecessor": predecessor,
    }
    tell(unit, "session.started", session, body)
    return session


def started(
    unit: Unit, session: Session, claim: Claim | None, remarks: tuple[str, ...] = ()
) -> SessionStarted:
    """The answer that `session` began."""
    return SessionStarted(
        project_revision=unit.revision,
        session=session,
        claim=claim,
        events=tuple(unit.events),
        remarks=remarks,
    )


def tell(unit: Unit, type: str, session: Session, body: dict[str, object]) -> None:
    """Append an event about a session."""
    unit.event(
        type,
        body,
        work=session.work,
        branch=session.branch,
        session=session.id,
        agent=session.agent,
    )


def stop(
    unit: Unit,
    session: Session,
    state: Literal["interrupted", "ended", "handed_off"],
    outcome: str | None = None,
) -> Session:
    """Write that a session is over."""
    values = {"state": state, "ended_at_ms": unit.now_ms, "outcome": outcome}
    unit.change(schema.sessions, {"id": session.id}, **values)
    return msgspec.structs.replace(session, state=state, ended_at_ms=unit.now_ms, outcome=outcome)


def interrupt(unit: Unit, session_id: str) -> SessionClosed:
    """Stop an active session that somebody may resume; its own claims end."""
    session = lookup.active_session(unit, session_id)
    # Nobody could resume it there.
    lookup.open_branch(unit, session.branch)
    return _closed(unit, stop(unit, session, "interrupted"), {})


def end(unit: Unit, session_id: str, outcome: str | None) -> SessionClosed:
    """End a session, active or interrupted, for good; its own claims end."""
    session = lookup.session(unit, session_id)
    resumed = session.state == "interrupted" and queries.successor(unit, session.id) is not None
    if session.state not in ("active", "interrupted") or resumed:
        raise lookup.not_active(unit, session)
    return _closed(unit, stop(unit, session, "ended", outcome), {"outcome": outcome})


def _closed(unit: Unit, session: Session, more: dict[str, object]) -> SessionClosed:
    closed = claims.close_all(unit, session)
    tell(unit, f"session.{session.state}", session, {"session": session.id, **more})
    return SessionClosed(
        project_revision=unit.revision,
        session=session,
        closed_claims=closed,
        events=tuple(unit.events),
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a session stands, as its agent tells."""

    digest: str
    next_action: str
    open_loops: Sequence[str] = ()
    context_sha256: str | None = None
    artifacts: Sequence[Artifact] = ()
    agent: str | None = None


def checkpoint(unit: Unit, session_id: str, standing: Standing) -> CheckpointSaved:
    """Keep where an active session stands; an agent that is named must be the session's."""
    session = lookup.agrees(lookup.active_session(unit, session_id), agent=standing.agent)
    saved = Checkpoint(
        id=new_id("k"),
        session=session.id,
        digest=standing.digest,
        next_action=standing.next_action,
        open_loops=tuple(standing.open_loops),
        context_sha256=standing.context_sha256,
        artifacts=tuple(standing.artifacts),
        agent=standing.agent or UNDECLARED,
        at_ms=unit.now_ms,
        revision=unit.revision,
    )
    unit.add(
        schema.checkpoints,
        **msgspec.structs.asdict(saved)
        | {
            "open_loops": encode(list(saved.open_loops)).decode(),
            "artifacts": encode(list(saved.artifacts)).decode(),
        },
    )
    body: dict[str, object] = {"checkpoint": saved.id, "agent": saved.agent}
    tell(unit, "session.checkpointed", session, body)
    return CheckpointSaved(project_revision=unit.revision, checkpoint=saved, event=unit.events[-1])


# --- reading ----------------------------------------------------------------------------------


def show(
    scope: Scope,
    session_id: str | None,
    *,
    work: str | None,
    agent: str | None,
    branch: str | None,
) -> SessionShown:
    """The session of that id, or the only active one of the branch that fits."""
    if session_id is not None:
        session = lookup.agrees(
            lookup.session(scope, session_id), work=work, agent=agent, branch=branch
        )
    else:
        session = the_only(scope, work=work, agent=agent, branch=branch)
    own = queries.claims_of(scope, session.id, open_only=False)
    return SessionShown(
        project_revision=scope.revision,
        session=session,
        claim=own[0] if own else None,
        checkpoint=_checkpoint_for(scope, session),
    )


def the_only(
    scope: Scope, *, work: str | None, agent: str | None, branch: str | None = None
) -> Session:
    """The only active session that fits, of the selected branch where none is named."""
    on = lookup.branch(scope, branch).name
    found = queries.sessions(
        scope, state="active", branch=on, work=work, agent=agent, limit=MAX_CANDIDATES + 1
    )
    if not found:
        lookup.nothing(
            "there is no active session"
            + (f" of {names.shown(agent)}" if agent else "")
            + (f" at {names.shown(work)}" if work else "")
            + f" on branch {names.shown(on)}",
            "name a session, or another branch: `callboard project session list --active`",
            kind="active session",
            name=" ".join(word for word in (on, work, agent) if word),
            branch=on,
            work=work,
            agent=agent,
        )
    if len(found) > 1:
        listed = [session for _place, session in found[:MAX_CANDIDATES]]
        raise CallboardError(
            "session_ambiguous",
            f"{len(listed)}{' or more' if len(found) > len(listed) else ''} active sessions fit "
            f"on branch {names.shown(on)}",
            "name one of them: " + ", ".join(session.id for session in listed[:3]),
            {
                "branch": on,
                "candidates": [
                    {"id": one.id, "work": one.work, "branch": one.branch, "agent": one.agent}
                    for one in listed
                ],
                "more": len(found) > len(listed),
            },
        )
    return found[0][1]


def _checkpoint_for(scope: Scope, session: Session) -> Checkpoint | None:
    """The last checkpoint of the session or, unchanged, of the nearest one before it."""
    at: Session | None = session
    while at is not None:
        found = queries.last_checkpoint(scope, at.id)
        if found is not None:
            return found
        at = None if at.predecessor is None else queries.session(scope, at.predecessor)
    return None


def listing(
    scope: Scope,
    *,
    active: bool,
    work: str | None,
    agent: str | None,
    branch: str | None,
    after: str | None,
    limit: int,
) -> SessionPage:
    """Sessions of all branches or of one, the latest first."""
    filters = {"active": active, "work": work, "agent": agent, "branch": branch}
    before = cursors.read(scope, "sessions", filters, after)
    found = queries.sessions(
        scope,
        state="active" if active else None,
        work=work,
        agent=agent,
        branch=branch,
        before=before,
        limit=limit + 1,
    )
    page, after = cursors.page(scope, "sessions", filters, found, limit)
    return SessionPage(
        project_revision=scope.revision,
        sessions=page,
        claims=tuple(queries.open_claims(scope, sessions=[one.id for one in page])),
        next=after,
    )
