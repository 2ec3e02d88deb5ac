"""Whether a piece of work can be begun, and if not, why: one rule for everything that asks.

Source: specification 2, "Versioned delivery dependencies", WS-031. Pure: it is handed items, claims
and completions. Each reason has a kind, the item it names and the path that leads there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from callboard.project.names import shown
from callboard.project.records import (
    Claim,
    Readiness,
    Reason,
    ReasonKind,
)
from callboard.project.source.fields import BLOCKED, CANCELLED, CLOSED, DONE, is_external

MAX_REASONS = 50
MAX_DEPTH = 100
"""How far down the dependencies the rule looks for what hinders them."""


class Listed(Protocol):
    """What the rule has to know of an item; a `WorkItem` is one."""

    @property
    def key(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def depends_on(self) -> Sequence[str]: ...


class Facts(Protocol):
    """What the rule asks for, on one branch at one moment."""

    def item(self, key: str) -> Listed | None:
        """An item of the work files."""

    def completed(self, key: str) -> bool:
        """Whether it was completed on the branch, under the criteria it has now."""

    def claim(self, key: str) -> Claim | None:
        """The live claim on it, of whatever branch."""

    def confirmed(self, key: str, edge: str) -> bool:
        """Whether current evidence of the item says that its edge to elsewhere is met."""


def readiness(work: Listed, facts: Facts, *, session: str | None = None) -> Readiness:
    """Whether `work` can be begun; the claim of `session` itself is no hindrance to it."""
    reasons: list[Reason] = []
    for reason in _reasons(work, facts, session):
        reasons.append(reason)
        if len(reasons) == MAX_REASONS:
            break
    return Readiness(ready=not reasons, reasons=tuple(reasons))


def is_ready(work: Listed, facts: Facts, *, session: str | None = None) -> bool:
    """What `readiness` says, without the reasons."""
    return next(_reasons(work, facts, session), None) is None


def is_met(work: Listed, facts: Facts) -> bool:
    """Whether what depends on `work` may begin: its file says done, or it was completed here."""
    return work.status == DONE or facts.completed(work.key)


def _reasons(work: Listed, facts: Facts, session: str | None) -> Iterator[Reason]:
    name = shown(work.key)
    if work.status in CLOSED:
        yield _own("closed", work, f"{name} is {work.status}")
    elif facts.completed(work.key):
        yield _own("completed", work, f"{name} was completed on this branch")
    elif work.status == BLOCKED:
        yield _own("blocked", work, f"{name} is blocked")
    claim = facts.claim(work.key)
    if claim is not None and claim.session != session:
        yield Reason(
            kind="claimed",
            item=work.key,
            path=(work.key,),
            message=f"{name} is claimed by {shown(claim.agent)} in session {claim.session}",
            claim=claim,
        )
    yield from _dependencies(work, facts)


def _own(kind: ReasonKind, work: Listed, message: str) -> Reason:
    return Reason(kind=kind, item=work.key, path=(work.key,), message=message)


def _dependencies(work: Listed, facts: Facts) -> Iterator[Reason]:
    """Each unmet dependency, and behind those what hinders them in turn; nearest first."""
    # Each item, and which one led to it: a path is made only where it is told.
    came: dict[str, str | None] = {work.key: None}
    ring: list[Listed] = [work]
    for depth in range(MAX_DEPTH):
        following = []
        for item in ring:
            for edge in item.depends_on:
                if edge in came:
                    continue
                external = is_external(edge)
                other = None if external else facts.item(edge)
                if external and facts.confirmed(item.key, edge):
                    continue
                if other is not None and is_met(other, facts):
                    continue
                came[edge] = item.key
                kind, message = _unmet(edge, other)
                # Further down, what is merely not done yet is work for others, not a reason.
                if kind != "dependency_open" or depth == 0:
                    yield Reason(kind=kind, item=edge, path=_path(edge, came), message=message)
                if other is not None and other.status != CANCELLED:
                    following.append(other)
        ring = following


def _path(last: str, came: dict[str, str | None]) -> tuple[str, ...]:
    path = []
    step: str | None = last
    while step is not None:
        path.append(step)
        step = came[step]
    return tuple(reversed(path))


def _unmet(edge: str, other: Listed | None) -> tuple[ReasonKind, str]:
    name = shown(edge)
    if other is None and is_external(edge):
        return "dependency_unverified", f"{name} is elsewhere; nobody here has verified it"
    if other is None:
        return "dependency_missing", f"there is no {name}"
    if other.status == BLOCKED:
        return "dependency_blocked", f"{name} is blocked"
    if other.status == CANCELLED:
        return "dependency_cancelled", f"{name} is cancelled and will not be done"
    return "dependency_open", f"{name} is {other.status}, not done"
