"""What can be begun: the facts of the database, handed to the one rule of `source.readiness`.

A query leaves out what cannot be ready; whether something is, only the rule says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

import msgspec

from callboard.project import queries
from callboard.project.records import (
    Claim,
    Session,
    WorkItem,
    WorkView,
)
from callboard.project.source import fields
from callboard.project.source.readiness import Listed, is_ready, readiness
from callboard.project.unit import Scope

# So many items are looked up one by one, before all open ones are read at once.
_SINGLE = 20

# So many reasons are told in a sentence.
_MAX_TOLD = 5

_texts = msgspec.json.Decoder(tuple[str, ...])


class _Row(NamedTuple):
    """An item as far as the rule needs it."""

    key: str
    status: str
    depends_on: tuple[str, ...]


class Facts:
    """What the rule asks for, read from one transaction and kept."""

    def __init__(self, scope: Scope, branch: str) -> None:
        self._scope = scope
        self._branch = branch
        self._items: dict[str, Listed | None] = {}
        self._completed: dict[str, bool] = {}
        self._claims: dict[str, Claim | None] = {}
        self._confirmed: dict[str, set[str]] = {}
        self._asked = 0

    def expect(self, items: Iterable[WorkItem]) -> None:
        """Read at once what the rule will ask about these."""
        listed = {item.key: item for item in items}
        inner = {
            edge
            for item in listed.values()
            for edge in item.depends_on
            if not fields.is_external(edge)
        }
        around = listed | queries.work_by_keys(self._scope, inner - listed.keys())
        self._items |= dict.fromkeys(inner) | around
        done = queries.completed(self._scope, self._branch, around)
        self._completed |= {key: key in done for key in around}
        claims = queries.claims_on(self._scope, listed)
        self._claims |= {key: _live(claims.get(key)) for key in listed}

    def item(self, key: str) -> Listed | None:
        """An item of the work files."""
        if key not in self._items:
            self._asked += 1
            if self._asked == _SINGLE:
                self._all()
            if key not in self._items:
                self._items[key] = queries.work_item(self._scope, key)
        return self._items[key]

    def completed(self, key: str) -> bool:
        """Whether it was completed on the branch, under the criteria it has now."""
        if key not in self._completed:
            self._completed[key] = bool(queries.completed(self._scope, self._branch, [key]))
        return self._completed[key]

    def claim(self, key: str) -> Claim | None:
        """The live claim on it."""
        if key not in self._claims:
            self._claims[key] = _live(queries.claim_on(self._scope, key))
        return self._claims[key]

    def confirmed(self, key: str, edge: str) -> bool:
        """Whether evidence of the item, current on the branch, covers the edge."""
        if key not in self._confirmed:
            self._confirmed[key] = covered(self._scope, self._branch, key)
        return edge in self._confirmed[key]

    def _all(self) -> None:
        """Read all that is open, and what of it was completed."""
        for row in queries.open_work(self._scope, fields.CLOSED):
            item = _Row(row.key, row.status, _texts.decode(row.depends_on))
            self._items.setdefault(item.key, item)
        done = queries.all_completed(self._scope, self._branch)
        for key in self._items:
            self._completed.setdefault(key, key in done)


def _live(claim: Claim | None) -> Claim | None:
    """A claim while it holds; one that lapsed is in nobody's way."""
    return claim if claim is not None and claim.state == "active" else None


def covered(scope: Scope, branch: str, work: str) -> set[str]:
    """What the evidence of a piece of work covers that is current on a branch."""
    found = queries.evidence(scope, branch, work=work, current_only=True)
    return {criterion for _place, one in found for criterion in one.covers}


def hindrances(scope: Scope, session: Session) -> tuple[str, ...]:
    """Why the work of a session is not ready for it, in words; nothing where it is."""
    item = queries.work_item(scope, session.work)
    if item is None:
        return ()
    facts = Facts(scope, session.branch)
    facts.expect([item])
    reasons = readiness(item, facts, session=session.id).reasons
    if not reasons:
        return ()
    told = "; ".join(reason.message for reason in reasons[:_MAX_TOLD])
    more = f"; and {len(reasons) - _MAX_TOLD} more" if len(reasons) > _MAX_TOLD else ""
    return (f"the work is not ready: {told}{more}",)


def views(
    scope: Scope, branch: str, items: Sequence[WorkItem], *, session: str | None = None
) -> tuple[WorkView, ...]:
    """Items with what the project knows of them on a branch, for a session where one is named."""
    facts = Facts(scope, branch)
    facts.expect(items)
    held = queries.claims_on(scope, [item.key for item in items])
    return tuple(
        WorkView(
            **{name: getattr(item, name) for name in WorkItem.__struct_fields__},
            readiness=readiness(item, facts, session=session),
            claim=held.get(item.key),
            completed=facts.completed(item.key),
            external=tuple(edge for edge in item.depends_on if fields.is_external(edge)),
        )
        for item in items
    )


def listing(scope: Scope, branch: str, *, limit: int) -> tuple[tuple[WorkItem, ...], bool]:
    """The first work that can be begun, the most urgent first, and whether there is more."""
    statuses = [
        one for one in fields.STATUSES if one not in fields.CLOSED and one != fields.BLOCKED
    ]
    found: list[WorkItem] = []
    step = limit + 1
    for start in count(0, step):
        keys = queries.likely_ready(scope, branch, statuses, fields.DONE, start=start, limit=step)
        items = queries.work_by_keys(scope, keys)
        facts = Facts(scope, branch)
        facts.expect(items.values())
        found += [items[key] for key in keys if is_ready(items[key], facts)]
        if len(found) > limit or len(keys) < step:
            break
    return tuple(found[:limit]), len(found) > limit
