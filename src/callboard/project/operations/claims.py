"""Claims: who holds a piece of work, since when, and how long at most.

A claim is effective while it is active and its end has not come. Whether it has is decided by the
time of the transaction that asks.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from callboard.clock import utc_text
from callboard.errors import CallboardError
from callboard.project import names, queries, schema
from callboard.project.answers import ClaimChanged, ClaimRepaired, ClaimShown
from callboard.project.operations import lookup
from callboard.project.records import Claim, Session
from callboard.project.unit import Scope, Unit, new_id

Ended = Literal["released", "expired", "transferred"]

_NOTHING_TO_RELEASE = "there is nothing to release; nobody is held off by it"


# --- operations -------------------------------------------------------------------------------


def acquire(unit: Unit, session_id: str, ttl_ms: int | None) -> ClaimChanged:
    """Take the session's work for it; a lapsed claim on it is taken over."""
    session = lookup.active_session(unit, session_id)
    lookup.open_branch(unit, session.branch)
    claim = take(unit, session, ttl_ms)
    return changed(unit, claim)


def renew(unit: Unit, session_id: str, ttl_ms: int, *, at_least: bool = False) -> ClaimChanged:
    """Let the session's live claim end `ttl_ms` from now; `at_least`: if that is no earlier."""
    session = lookup.active_session(unit, session_id)
    lookup.open_branch(unit, session.branch)
    held = held_by(unit, session)
    expires_at_ms = names.deadline(unit.now_ms, ttl_ms)
    if at_least:
        expires_at_ms = _later(expires_at_ms, held.expires_at_ms)
    _write(unit, held, expires_at_ms=expires_at_ms)
    claim = msgspec.structs.replace(held, expires_at_ms=expires_at_ms)
    _tell(unit, "claim.renewed", claim, {"before_expires_at_ms": held.expires_at_ms})
    return changed(unit, claim)


def release(unit: Unit, session_id: str) -> ClaimChanged:
    """Give the session's live claim back."""
    session = lookup.session(unit, session_id)
    held = held_by(unit, session, _NOTHING_TO_RELEASE)
    return changed(unit, close(unit, held, "released"))


def show(scope: Scope, work: str) -> ClaimShown:
    """The claim on a piece of work, also on one that the files no longer have."""
    claim = queries.claim_on(scope, work)
    if claim is None:
        lookup.work(scope, work)
    return ClaimShown(project_revision=scope.revision, claim=claim)


def repair(unit: Unit, claim_id: str, reason: str) -> ClaimRepaired:
    """Mark a claim as expired whose end has come; no other claim and no session is touched."""
    claim = lookup.claim(unit, claim_id)
    if claim.state != "expired" or claim.released_at_ms is not None:
        raise _not_expired(unit, claim)
    closed = close(unit, claim, "expired", {"reason": reason, "repaired": True})
    return ClaimRepaired(project_revision=unit.revision, claim=closed, event=unit.events[-1])


def changed(unit: Unit, claim: Claim) -> ClaimChanged:
    """The answer that `claim` is now so."""
    return ClaimChanged(project_revision=unit.revision, claim=claim, events=tuple(unit.events))


# --- steps of other operations -----------------------------------------------------------------


def take(unit: Unit, session: Session, ttl_ms: int | None) -> Claim:
    """A new claim of `session`; refuses with `claim_held` while another one is live."""
    held = queries.claim_on(unit, session.work)
    over: dict[str, object] = {}
    if held is not None:
        if held.state == "active":
            raise _held(held, session)
        close(unit, held, "expired")
        over = {"took_over": _identity(held)}
    return grant(unit, session, names.deadline(unit.now_ms, ttl_ms), over)


def grant(
    unit: Unit, session: Session, expires_at_ms: int | None, more: dict[str, object]
) -> Claim:
    """Write a claim of `session` on its work, which nobody holds."""
    claim = Claim(
        id=new_id("c"),
        work=session.work,
        session=session.id,
        agent=session.agent,
        branch=session.branch,
        state="active",
        fence=queries.last_fence(unit, session.work) + 1,
        acquired_at_ms=unit.now_ms,
        expires_at_ms=expires_at_ms,
        released_at_ms=None,
    )
    unit.add(schema.claims, **msgspec.structs.asdict(claim))
    _tell(unit, "claim.acquired", claim, more)
    return claim


def held_by(scope: Scope, session: Session, advice: str | None = None) -> Claim:
    """The live claim of a session; refuses with `claim_not_holder` where it has none.

    `advice`: what to do where nobody else has one, if it is not to acquire one.
    """
    held = queries.claim_on(scope, session.work)
    if held is not None and held.session == session.id and held.state == "active":
        return held
    details: dict[str, object] = {"session": session.id, "work": session.work}
    hint = advice or (
        f"`callboard project claim acquire --session {session.id} --ttl-ms {names.USUAL_TTL_MS}` "
        "before you go on with it"
    )
    if held is None:
        found = "nobody holds it"
    elif held.session == session.id:
        found = f"its claim {held.id} lapsed at {_end(held)}"
    elif held.state == "active":
        found = f"session {held.session} holds it"
        hint = "change nothing in its name; take other work, or ask the holder to hand it off"
    else:
        found = f"the claim of session {held.session} lapsed at {_end(held)}, and nobody has it now"
    if held is not None:
        details |= {"claim": held.id, "holder": held.session, "state": held.state}
        details["expires_at_ms"] = held.expires_at_ms
    raise CallboardError(
        "claim_not_holder",
        f"the session {session.id} holds no live claim on {names.shown(session.work)}: {found}",
        hint,
        details,
    )


def close(unit: Unit, claim: Claim, state: Ended, more: dict[str, object] | None = None) -> Claim:
    """End a claim, and tell so."""
    closed = msgspec.structs.replace(claim, state=state, released_at_ms=unit.now_ms)
    _write(unit, claim, state=state, released_at_ms=unit.now_ms)
    _tell(unit, f"claim.{state}", closed, more or {})
    return closed


def close_all(unit: Unit, session: Session) -> tuple[Claim, ...]:
    """End the claims of a session that is over: the live ones are released, others expired."""
    return tuple(
        close(unit, claim, "released" if claim.state == "active" else "expired")
        for claim in queries.claims_of(unit, session.id)
    )


# --- parts ------------------------------------------------------------------------------------


def _write(unit: Unit, claim: Claim, **values: object) -> None:
    if unit.change(schema.claims, {"id": claim.id, "state": "active"}, **values) != 1:
        raise AssertionError(f"the claim {claim.id} changed within a transaction")


def _tell(unit: Unit, type: str, claim: Claim, more: dict[str, object]) -> None:
    body = {**_identity(claim), "fence": claim.fence, **more}
    unit.event(
        type,
        body,
        work=claim.work,
        branch=claim.branch,
        session=claim.session,
        agent=claim.agent,
    )


def _identity(claim: Claim) -> dict[str, object]:
    return {
        "claim": claim.id,
        "session": claim.session,
        "agent": claim.agent,
        "branch": claim.branch,
        "expires_at_ms": claim.expires_at_ms,
    }


def _later(one: int | None, other: int | None) -> int | None:
    """The later one of two ends; None is never, which is later than any."""
    return None if one is None or other is None else max(one, other)


def _end(claim: Claim) -> str:
    """When a claim ends, for people."""
    return "-" if claim.expires_at_ms is None else utc_text(claim.expires_at_ms)


def _held(held: Claim, session: Session) -> CallboardError:
    end = "has no end" if held.expires_at_ms is None else f"ends at {_end(held)}"
    own = held.session == session.id
    return CallboardError(
        "claim_held",
        f"{names.shown(held.work)} is held by session {held.session} of "
        f"{names.shown(held.agent)} on branch {names.shown(held.branch)}; the claim {end}",
        f"you hold it already; to hold it longer: `callboard project claim renew --session "
        f"{held.session} --ttl-ms {names.USUAL_TTL_MS}`"
        if own
        else "wait until it is released or lapses, or take other work",
        {
            "claim": held.id,
            "work": held.work,
            "session": held.session,
            "agent": held.agent,
            "branch": held.branch,
            "fence": held.fence,
            "expires_at_ms": held.expires_at_ms,
        },
    )


def _not_expired(unit: Unit, claim: Claim) -> CallboardError:
    hint = (
        f"its session may release it: `callboard project claim release --session {claim.session}`"
    )
    if claim.released_at_ms is not None:
        found = f"is {claim.state} already"
        hint = "there is nothing to repair; `callboard project doctor` lists what has lapsed"
    elif claim.expires_at_ms is None:
        found = "has no end"
    else:
        found = f"ends at {_end(claim)}, and it is {utc_text(unit.now_ms)}"
    return CallboardError(
        "claim_not_expired",
        f"the claim {claim.id} {found}; nothing was changed",
        hint,
        {"claim": claim.id, "state": claim.state, "expires_at_ms": claim.expires_at_ms}
        | {"now_ms": unit.now_ms},
    )
