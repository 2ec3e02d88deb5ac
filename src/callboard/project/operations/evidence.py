"""Evidence: what shows that acceptance criteria are met, on the branch where it was seen."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from callboard.canonical import encode
from callboard.errors import CallboardError
from callboard.project import cursors, names, queries, schema
from callboard.project.answers import EvidenceAdded, EvidencePage
from callboard.project.operations import lookup
from callboard.project.records import Evidence
from callboard.project.source.fields import is_external
from callboard.project.unit import Scope, Unit, new_id


@dataclass(frozen=True, slots=True)
class Shown:
    """What somebody gives as evidence."""

    kind: str
    summary: str
    covers: Sequence[str] = ()
    ref: str | None = None
    sha256: str | None = None


def add(
    unit: Unit, shown: Shown, *, session: str | None, work: str | None, branch: str | None
) -> EvidenceAdded:
    """Keep evidence for a piece of work. Of a session it is on the session's work and branch."""
    agent = None if unit.actor == names.LOCAL else unit.actor
    if session is not None:
        found = lookup.speaker(unit, session, work=work, branch=branch)
        work, branch, agent = found.work, found.branch, found.agent
    if work is None:
        raise CallboardError(
            "value_invalid",
            "evidence names neither a session nor a piece of work",
            "name one of them",
            {"field": "work"},
        )
    on = lookup.open_branch(unit, branch).name
    _check_covers(unit, work, shown.covers)
    return _write(
        unit,
        {
            "id": new_id("v"),
            "work": work,
            "branch": on,
            "session": session,
            "agent": agent,
            "kind": shown.kind,
            "summary": shown.summary,
            "ref": shown.ref,
            "sha256": shown.sha256,
            "at_ms": unit.now_ms,
            "revision": unit.revision,
        },
        tuple(shown.covers),
    )


def _write(unit: Unit, values: dict[str, Any], covers: tuple[str, ...]) -> EvidenceAdded:
    unit.add(
        schema.evidence,
        **values,
        covers=encode(list(covers)).decode(),
        position=queries.next_position(unit, schema.evidence),
    )
    event = unit.event(
        "evidence.added",
        {
            "evidence": values["id"],
            "kind": values["kind"],
            "covers": len(covers),
            "sha256": values["sha256"],
        },
        work=values["work"],
        branch=values["branch"],
        session=values["session"],
        agent=values["agent"],
    )
    evidence = Evidence(**values, covers=covers, currency="current")
    return EvidenceAdded(project_revision=unit.revision, evidence=evidence, event=event)


def _check_covers(unit: Unit, work: str, covers: Sequence[str]) -> None:
    lookup.work(unit, work)
    item = queries.work_item(unit, work)
    assert item is not None
    # An edge to another repository is confirmed the same way, as nobody here can look there.
    known = {*item.acceptance, *(edge for edge in item.depends_on if is_external(edge))}
    for criterion in covers:
        if criterion not in known:
            raise CallboardError(
                "criterion_unknown",
                f"the work {names.shown(work)} has no acceptance criterion "
                f"{names.shown(criterion)}",
                f"spell it as the work does: `callboard project work show {shlex.quote(work)}` "
                "lists them",
                {"work": work, "criterion": criterion, "acceptance": list(item.acceptance)[:20]},
            )


def listing(
    scope: Scope,
    *,
    work: str | None,
    branch: str | None,
    current: bool,
    after: str | None,
    limit: int,
) -> EvidencePage:
    """Evidence as it counts on a branch, the selected one where none is named.

    What was seen on another branch is there too, as historical, unless `current` leaves it out.
    """
    on = lookup.branch(scope, branch).name
    filters = {"work": work, "branch": on, "current": current}
    place = cursors.read(scope, "evidence", filters, after)
    found = queries.evidence(
        scope, on, work=work, current_only=current, after=place, limit=limit + 1
    )
    page, after = cursors.page(scope, "evidence", filters, found, limit)
    return EvidencePage(project_revision=scope.revision, evidence=page, next=after)
