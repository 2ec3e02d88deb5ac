"""Succession: one session goes on where another one stopped. Each has one successor at most.

What the earlier one held goes over with the end it has, unless another is asked for; a lapsed claim
gives nothing. Checkpoints stay with the session that wrote them.
"""

from __future__ import annotations

import shlex

from callboard.errors import CallboardError
from callboard.project import names, queries
from callboard.project.answers import SessionStarted
from callboard.project.operations import claims, lookup, sessions
from callboard.project.operations.sessions import Worker
from callboard.project.records import Claim, Session
from callboard.project.unit import Unit


def handoff(unit: Unit, session_id: str, worker: Worker, ttl_ms: int | None) -> SessionStarted:
    """An active session gives its work, on its branch, to a new one."""
    before = lookup.session(unit, session_id)
    _no_successor(unit, before)
    before = lookup.active_session(unit, session_id)
    lookup.open_branch(unit, before.branch)
    over = sessions.stop(unit, before, "handed_off")
    after, claim = _follow(unit, before, worker, ttl_ms, inherit=True)
    sessions.tell(unit, "session.handed_off", over, {"session": over.id, "successor": after.id})
    return sessions.started(unit, after, claim)


def resume(
    unit: Unit, session_id: str, worker: Worker, ttl_ms: int | None, *, inherit: bool
) -> SessionStarted:
    """A new session goes on with one that is interrupted, or that nobody can ask any more.

    Only where the branch of the earlier one is the selected one.
    """
    before = lookup.session(unit, session_id)
    _no_successor(unit, before)
    if before.state not in ("active", "interrupted"):
        raise lookup.not_active(unit, before)
    _current(unit, before)
    lookup.open_branch(unit, before.branch)
    if before.state == "active":
        over = sessions.stop(unit, before, "interrupted")
        sessions.tell(unit, "session.interrupted", over, {"session": over.id})
    after, claim = _follow(unit, before, worker, ttl_ms, inherit=inherit)
    sessions.tell(unit, "session.resumed", after, {"session": after.id, "predecessor": before.id})
    return sessions.started(unit, after, claim)


def _follow(
    unit: Unit, before: Session, worker: Worker, ttl_ms: int | None, *, inherit: bool
) -> tuple[Session, Claim | None]:
    """The new session, with what it takes over from the one before."""
    held = [claim for claim in queries.claims_of(unit, before.id) if claim.state == "active"]
    after = sessions.begin(unit, before.work, before.branch, worker, before.id)
    live = held[0] if held and inherit else None
    if live is not None:
        claims.close(unit, live, "transferred", {"successor": after.id})
    # What is still open, or has lapsed, ends with its session.
    claims.close_all(unit, before)
    if live is not None:
        end = live.expires_at_ms if ttl_ms is None else names.deadline(unit.now_ms, ttl_ms)
        return after, claims.grant(unit, after, end, {"from_claim": live.id})
    if ttl_ms is not None and inherit:
        return after, claims.take(unit, after, ttl_ms)
    return after, None


def _no_successor(unit: Unit, session: Session) -> None:
    follower = queries.successor(unit, session.id)
    if follower is not None:
        raise CallboardError(
            "successor_exists",
            f"the session {session.id} is followed by {follower} already",
            f"leave its work to {follower}, which has taken its place: `callboard project session "
            f"show {follower}`; take other work",
            {"session": session.id, "successor": follower},
        )


def _current(unit: Unit, session: Session) -> None:
    selected = queries.selected_branch(unit)
    if session.branch != selected:
        raise CallboardError(
            "branch_not_current",
            f"the session {session.id} is on branch {names.shown(session.branch)}, and "
            f"{names.shown(selected)} is selected",
            f"`callboard project branch select {shlex.quote(session.branch)}` first",
            {"session": session.id, "branch": session.branch, "selected": selected},
        )
