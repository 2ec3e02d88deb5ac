"""What the rows tell: whether time and history hang together, and what was left unfinished."""

from __future__ import annotations

from collections.abc import Iterator

from callboard.clock import utc_text
from callboard.project import names, queries
from callboard.project.doctor.findings import finding
from callboard.project.records import Claim, Finding
from callboard.project.unit import Scope


def clock(scope: Scope) -> Iterator[Finding]:
    """Whether the machine's clock is behind what was written."""
    behind = scope.now_ms - scope.machine_ms
    if behind > 0:
        yield finding(
            "clock_behind",
            f"the clock says {utc_text(scope.machine_ms)}, and the last change was at "
            f"{utc_text(scope.now_ms)}; until it has caught up, time stands still here and no "
            "claim lapses",
            hinted={"revision": scope.revision},
            behind_ms=behind,
        )


def revisions(scope: Scope) -> Iterator[Finding]:
    """Each revision has its events, and nothing is beyond the last."""
    history = queries.history(scope)
    if history.revisions != scope.revision or history.last_revision != scope.revision:
        yield finding(
            "revision_gap",
            f"the project is at revision {scope.revision}, and its history has "
            f"{history.revisions} revisions up to {history.last_revision}",
            revision=scope.revision,
            revisions=history.revisions,
            last=history.last_revision,
        )
    if not history.events == history.last_seq == history.written:
        yield finding(
            "event_gap",
            f"the history has {history.events} events up to number {history.last_seq}, and "
            f"{history.written} were written",
            events=history.events,
            last=history.last_seq,
            written=history.written,
        )


def claims(scope: Scope) -> Iterator[Finding]:
    """Claims whose end has come, of nobody, and on what no file has."""
    for claim in queries.open_claims(scope):
        session = queries.session(scope, claim.session)
        if claim.state == "expired":
            yield finding(
                "claim_expired",
                f"the claim on {names.shown(claim.work)} lapsed at {_end(claim)}",
                subject=claim.id,
                hinted={"revision": scope.revision},
                work=claim.work,
                session=claim.session,
                expires_at_ms=claim.expires_at_ms,
            )
        if not queries.work_exists(scope, claim.work):
            yield finding(
                "claim_unlisted",
                f"there is a claim on {names.shown(claim.work)}, which no file has any more",
                subject=claim.id,
                work=claim.work,
                session=claim.session,
            )
        if session is None or session.state != "active":
            yield finding(
                "claim_orphaned",
                f"the claim on {names.shown(claim.work)} is of a session that is over",
                subject=claim.id,
                work=claim.work,
                session=claim.session,
            )


def _end(claim: Claim) -> str:
    return "-" if claim.expires_at_ms is None else utc_text(claim.expires_at_ms)


def sessions(scope: Scope) -> Iterator[Finding]:
    """Sessions that nobody ended, and that hold nothing."""
    holding = {claim.session for claim in queries.open_claims(scope) if claim.state == "active"}
    for _place, session in queries.sessions(scope, state="active"):
        if session.id not in holding:
            yield finding(
                "session_open",
                f"the session of {names.shown(session.agent)} at {names.shown(session.work)} has "
                "no end and holds no claim",
                subject=session.id,
                work=session.work,
                agent=session.agent,
                branch=session.branch,
            )
