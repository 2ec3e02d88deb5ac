"""Completing work: the only place where `work.completed` comes from.

A session that holds the work, on its own branch, and evidence there for each acceptance criterion.
The work file is not touched; what is written is that this was so.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from callboard.canonical import encode
from callboard.errors import CallboardError
from callboard.project import names, queries, schema
from callboard.project.answers import WorkCompleted
from callboard.project.operations import claims, lookup, ready, sources
from callboard.project.records import (
    Claim,
    Evidence,
    Session,
    WorkItem,
)
from callboard.project.source.fields import is_external
from callboard.project.source.place import Place
from callboard.project.source.readiness import readiness
from callboard.project.unit import Unit, new_id

_MAX_SHOWN = 20
_MAX_COMMAND = 2_000


def complete(unit: Unit, place: Place, work: str, session_id: str) -> WorkCompleted:
    """Write that `work` is complete on the branch of the session; `place` has its file.

    Raises `session_mismatch`, `session_not_active`, `branch_closed`, `claim_not_holder`,
    `source_conflict`, `work_not_ready`, `acceptance_uncovered`.
    """
    lookup.work(unit, work)
    session = lookup.active_session(unit, session_id)
    lookup.agrees(session, work=work)
    lookup.open_branch(unit, session.branch)
    claim = claims.held_by(unit, session)
    item = queries.work_item(unit, work)
    assert item is not None
    # The file is the authority on what has to be met; the projection may be behind it.
    sources.check_item_unchanged(place, item)
    _check_ready(unit, item, session)
    covered = _covered(unit, item, session)
    return _write(unit, item, session, claim, covered)


def _check_ready(unit: Unit, item: WorkItem, session: Session) -> None:
    facts = ready.Facts(unit, session.branch)
    facts.expect([item])
    found = readiness(item, facts, session=session.id)
    if found.ready:
        return
    raise CallboardError(
        "work_not_ready",
        f"{names.shown(item.key)} cannot be completed: "
        + "; ".join(reason.message for reason in found.reasons[:_MAX_SHOWN]),
        f"see to what it names first; `callboard project work show {shlex.quote(item.key)} "
        f"--session {session.id}` explains",
        {
            "work": item.key,
            "reasons": [
                {"kind": reason.kind, "item": reason.item, "path": list(reason.path)}
                for reason in found.reasons
            ],
        },
    )


def _covered(unit: Unit, item: WorkItem, session: Session) -> list[tuple[str, list[str]]]:
    """Each criterion with the evidence that covers it, or `acceptance_uncovered`."""
    branch = session.branch
    all_evidence = [one for _place, one in queries.evidence(unit, branch, work=item.key)]
    current = [one for one in all_evidence if one.currency == "current"]
    found = [(criterion, _covering(current, criterion)) for criterion in item.acceptance]
    open_ = [criterion for criterion, ids in found if not ids]
    if open_:
        raise _uncovered(item, session, open_, all_evidence)
    # An edge to elsewhere is no criterion: what confirms it shows nothing of the work itself.
    own = [one for one in current if not one.covers or not all(map(is_external, one.covers))]
    if not item.acceptance and not own:
        raise CallboardError(
            "acceptance_uncovered",
            f"{names.shown(item.key)} lists no acceptance criteria, so some evidence of the work "
            f"itself is needed, and on the branch {names.shown(branch)} there is none; evidence "
            "that only confirms what is elsewhere is not of the work itself",
            f"add evidence of what was done: {_adding(session, ())}",
            {"work": item.key, "branch": branch, "uncovered": []},
        )
    return found or [("", [one.id for one in own])]


def _covering(evidence: list[Evidence], criterion: str) -> list[str]:
    return [one.id for one in evidence if criterion in one.covers]


def _adding(session: Session, criteria: Sequence[str]) -> str:
    """The command that adds evidence of a session, for as many criteria as it has room for."""
    covers = ""
    for one in criteria:
        more = f" --covers {shlex.quote(one)}"
        if covers and len(covers) + len(more) > _MAX_COMMAND:
            break
        covers += more
    return (
        f"`callboard project evidence add --session {session.id} --kind test-run --summary TEXT"
        f"{covers}`"
    )


def _uncovered(
    item: WorkItem, session: Session, open_: list[str], evidence: list[Evidence]
) -> CallboardError:
    branch = session.branch
    elsewhere = [one for one in evidence if one.currency == "historical"]
    details = [
        {
            "criterion": criterion,
            "place": item.acceptance.index(criterion),
            "historical": _covering(elsewhere, criterion)[:_MAX_SHOWN],
        }
        for criterion in open_
    ]
    hint = f"add evidence on this branch: {_adding(session, open_)}"
    if any(one["historical"] for one in details):
        hint += "; evidence from another branch is not current here"
    return CallboardError(
        "acceptance_uncovered",
        f"{len(open_)} of {len(item.acceptance)} acceptance criteria of {names.shown(item.key)} "
        f"have no evidence on the branch {names.shown(branch)}: "
        + "; ".join(names.shown(criterion) for criterion in open_),
        hint,
        {"work": item.key, "branch": branch, "uncovered": details},
    )


def _write(
    unit: Unit,
    item: WorkItem,
    session: Session,
    claim: Claim,
    covered: list[tuple[str, list[str]]],
) -> WorkCompleted:
    completion = new_id("d")
    unit.add(
        schema.completions,
        id=completion,
        work=item.key,
        branch=session.branch,
        session=session.id,
        claim=claim.id,
        fence=claim.fence,
        criteria=encode(list(item.acceptance)).decode(),
        acceptance=encode([[criterion, ids] for criterion, ids in covered]).decode(),
        source_sha256=item.source_sha256,
        at_ms=unit.now_ms,
        revision=unit.revision,
    )
    event = unit.event(
        "work.completed",
        {
            "completion": completion,
            "claim": claim.id,
            "fence": claim.fence,
            "criteria": len(item.acceptance),
            "evidence": sorted({one for _criterion, ids in covered for one in ids})[:1000],
            "source": {"path": item.source_file, "sha256": item.source_sha256},
        },
        work=item.key,
        branch=session.branch,
        session=session.id,
        agent=session.agent,
    )
    return WorkCompleted(
        project_revision=unit.revision,
        completion=completion,
        branch=session.branch,
        work=ready.views(unit, session.branch, [item], session=session.id)[0],
        event=event,
    )
