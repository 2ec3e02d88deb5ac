"""Whether an effect's target lies within what the Work and its worker may touch.

Source: wire-v3 §9 (resource_scope). Pure judgement; a scope is only ever narrower than the
profile's, and what it does not name is denied.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from callboard.board.protocol.operations import Payload, Resource
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Decimal, Identity, RepositoryName
from callboard.board.protocol.validate import parse
from callboard.errors import CallboardError

SCOPE_FIELD = "resource_scope"
MAX_SELECTORS = 128


class Target(Record, frozen=True, kw_only=True):
    """What an effect here touches: a ref of a repository."""

    repository: RepositoryName
    ref: str


class Selector(Record, frozen=True, kw_only=True):
    """One permitted resource; every field that is given must match exactly."""

    repository: RepositoryName
    kind: Literal["issue", "pull_request"] | UnsetType = UNSET
    host: Identity | UnsetType = UNSET
    repository_id: Identity | UnsetType = UNSET
    resource_id: Identity | UnsetType = UNSET
    number: Decimal | UnsetType = UNSET
    comment_id: Decimal | UnsetType = UNSET
    run_id: Decimal | UnsetType = UNSET
    ref: Identity | UnsetType = UNSET
    path: Identity | UnsetType = UNSET

    def matches(self, target: Target) -> bool:
        """Whether every given field is the target's; a field it does not have never is."""
        for name in self.__struct_fields__:
            wanted = getattr(self, name)
            if wanted is not UNSET and wanted != getattr(target, name, UNSET):
                return False
        return True


class ResourceScope(Record, frozen=True, kw_only=True):
    """What a Work may touch at most; an empty list denies everything."""

    version: Literal[1]
    resources: Annotated[list[Selector], Meta(max_length=MAX_SELECTORS)]


def check_target(
    target: Target, *, effect_scope: str, payload: Payload, subject: Resource | None
) -> None:
    """Refuse with `effect_scope_denied` a target that may not be touched.

    `effect_scope` is the profile's repository, `subject` the Work's, of which a ref shares the
    repository only. Raises `scope_invalid` for a malformed resource scope.
    """
    if target.repository != effect_scope:
        raise _denied(target, f"the worker's profile may write to {effect_scope!r} only")
    if subject is not None and subject.repository != target.repository:
        raise _denied(target, f"the Work is about {subject.repository}")
    if SCOPE_FIELD not in payload:
        return
    scope = parse_scope(payload[SCOPE_FIELD])
    if not any(selector.matches(target) for selector in scope.resources):
        raise _denied(target, f"none of the Work's {len(scope.resources)} resources names it")


def parse_scope(value: object) -> ResourceScope:
    """A payload's resource scope, or `scope_invalid`."""
    scope = parse(ResourceScope, value, what="resource scope", code="scope_invalid")
    if len(set(map(repr, scope.resources))) != len(scope.resources):
        raise CallboardError(
            "scope_invalid", "the resource scope names a resource twice", "name each once"
        )
    return scope


def _denied(target: Target, found: str) -> CallboardError:
    return CallboardError(
        "effect_scope_denied",
        f"{target.ref!r} in {target.repository} may not be written: {found}",
        "widen the Work's resource_scope, or deliver elsewhere",
        {"repository": target.repository, "ref": target.ref},
    )
