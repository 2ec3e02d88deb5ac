"""Finding what a caller named, or refusing with `not_found`; nothing is written."""

from __future__ import annotations

import shlex
from typing import NoReturn

from callboard.errors import CallboardError
from callboard.project import names, queries
from callboard.project.records import Branch, Claim, Session
from callboard.project.unit import Scope, lost


def nothing(message: str, hint: str, **details: object) -> NoReturn:
    """Refuse a question that nothing fits."""
    raise CallboardError("not_found", message, hint, details)


def missing(kind: str, found: str, hint: str, **details: object) -> NoReturn:
    """Refuse a name that stands for nothing."""
    raise CallboardError(
        "not_found",
        f"there is no {kind} {names.shown(found)}",
        hint,
        {"kind": kind, "name": found, **details},
    )


def work(scope: Scope, key: str) -> str:
    """The key of a piece of work that the projection has."""
    if not queries.work_exists(scope, key):
        first = queries.work_twin(scope, names.twin(key))
        if first is not None:
            missing("work", key, f"there is {names.shown(first)}; spell it so", similar=first)
        missing("work", key, "look at `callboard project work list`, or index the sources")
    return key


def branch(scope: Scope, name: str | None) -> Branch:
    """The branch of that name; None: the selected one."""
    found = queries.branch(scope, queries.selected_branch(scope) if name is None else name)
    if found is None:
        if name is None:
            raise lost("the branch that is selected is not there")
        first = queries.branch_twin(scope, names.twin(name))
        if first is not None:
            missing("branch", name, f"there is {names.shown(first)}; spell it so", similar=first)
        missing("branch", name, "look at `callboard project branch list`, or create it")
    return found


def open_branch(scope: Scope, name: str | None) -> Branch:
    """As `branch`, refusing a closed one with `branch_closed`."""
    found = branch(scope, name)
    if found.state == "closed":
        raise CallboardError(
            "branch_closed",
            f"the branch {names.shown(found.name)} is closed",
            "name an open branch, or `callboard project branch select main`; a session on the "
            "closed one may still checkpoint, release its claim and end, and nothing else",
            {"branch": found.name},
        )
    return found


def session(scope: Scope, session_id: str) -> Session:
    """The session of that id."""
    found = queries.session(scope, session_id)
    if found is None:
        missing("session", session_id, "look at `callboard project session list`")
    return found


def active_session(scope: Scope, session_id: str) -> Session:
    """As `session`, refusing one that is no longer active with `session_not_active`."""
    found = session(scope, session_id)
    if found.state != "active":
        raise not_active(scope, found)
    return found


def speaker(
    scope: Scope, session_id: str, *, work: str | None = None, branch: str | None = None
) -> Session:
    """The active session that tells something: of its own work and branch, whatever is named.

    Refuses with `session_mismatch` what is named and is not the session's.
    """
    agrees(session(scope, session_id), work=work, branch=branch)
    return active_session(scope, session_id)


def not_active(scope: Scope, found: Session) -> CallboardError:
    """That a session is over."""
    follower = queries.successor(scope, found.id)
    if follower is not None:
        hint = f"stop, and change nothing in its name: {follower} has taken its place"
    elif found.state == "interrupted":
        hint = (
            f"go on with it: `callboard project session resume --from {found.id} --agent NAME "
            f"--ttl-ms {names.USUAL_TTL_MS}`"
        )
    else:
        hint = (
            "it is over for good; begin another one: `callboard project session start --work "
            f"{shlex.quote(found.work)} --agent NAME`"
        )
    state = "was handed off" if found.state == "handed_off" else f"is {found.state}"
    return CallboardError(
        "session_not_active",
        f"the session {found.id} {state}",
        hint,
        {"session": found.id, "state": found.state, "successor": follower},
    )


def claim(scope: Scope, claim_id: str) -> Claim:
    """The claim of that id."""
    found = queries.claim(scope, claim_id)
    if found is None:
        missing("claim", claim_id, "the doctor lists lapsed claims")
    return found


def agrees(
    session: Session,
    *,
    work: str | None = None,
    agent: str | None = None,
    branch: str | None = None,
) -> Session:
    """Refuse with `session_mismatch` what was named beside a session and is not the session's."""
    for field, named, own in (
        ("work", work, session.work),
        ("agent", agent, session.agent),
        ("branch", branch, session.branch),
    ):
        if named is not None and named != own:
            raise CallboardError(
                "session_mismatch",
                f"the session {session.id} has the {field} {names.shown(own)}, "
                f"not {names.shown(named)}",
                f"name the session's own {field}, {names.shown(own)}, or another session",
                {"session": session.id, "field": field, "found": named, "expected": own},
            )
    return session
