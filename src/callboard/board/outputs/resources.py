"""Whether what an effect would touch lies within what the Work and its worker may touch.

Source: wire-v3 §9 (resource_scope). Pure judgement, the same for the gate and for whoever asks. A
scope only ever narrows the profile's; what nobody named, or named in a doubtful way, is denied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from callboard.board.protocol.operations import Payload, Resource
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Decimal, Identity, Location, RepositoryName
from callboard.errors import CallboardError
from callboard.validate import Fault, faults_of, parse, refuse, show

SCOPE_FIELD = "resource_scope"
MAX_SELECTORS = 128
DEFAULT_HOST = "github.com"
"""The host of a board that names none."""

_ITEM = ("kind", "number", "resource_id", "comment_id")
"""The fields by which a target is an issue, a pull request, or a part of one."""
_PLACE = ("run_id", "ref", "path")
"""The fields by which a target is a place in a repository that belongs to no single item."""


class Coordinates(Record, frozen=True, kw_only=True):
    """A repository, or something in it that the fields after it name."""

    repository: RepositoryName
    kind: Literal["issue", "pull_request"] | UnsetType = UNSET
    host: Identity | UnsetType = UNSET
    repository_id: Identity | UnsetType = UNSET
    resource_id: Identity | UnsetType = UNSET
    number: Decimal | UnsetType = UNSET
    comment_id: Decimal | UnsetType = UNSET
    run_id: Decimal | UnsetType = UNSET
    ref: Location | UnsetType = UNSET
    path: Location | UnsetType = UNSET

    def document(self) -> dict[str, Any]:
        """The fields that are given, as plain JSON and unjudged."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {name: value for name, value in fields if value is not UNSET}


class Target(Coordinates, frozen=True, kw_only=True):
    """What one effect touches. One without a `host` is of the board's, and matches nothing that
    names a host: what is not said is not taken for said."""


class Selector(Coordinates, frozen=True, kw_only=True):
    """What a Work may touch: all targets that have each given field, with the very same value."""

    def matches(self, target: Target) -> bool:
        """Whether every given field is the target's; a field it does not have never is."""
        return all(value == getattr(target, name, UNSET) for name, value in self.document().items())


class ResourceScope(Record, frozen=True, kw_only=True):
    """What a Work may touch at most; an empty list denies everything."""

    version: Literal[1]
    resources: Annotated[list[Selector], Meta(max_length=MAX_SELECTORS)]


@dataclass(frozen=True, slots=True)
class Reach:
    """Within which one run may have effects for one Work.

    `effect_scope` is the repository of the worker's profile, `run_id` that of the bound run,
    `subject` and `payload` are the Work's, `host` is the board's.
    """

    effect_scope: str
    run_id: str
    payload: Payload
    subject: Resource | None
    host: str = DEFAULT_HOST


def check_target(value: object, reach: Reach) -> None:
    """Refuse a target, a plain JSON value, that may not be touched.

    What is malformed is said first, whatever else stands against the target: `target_invalid` of
    the target itself, another host included, then `scope_invalid` of the payload's scope; after
    them `effect_scope_denied`.
    """
    target = parse_target(value, reach.host)
    scope = parse_scope(reach.payload[SCOPE_FIELD]) if SCOPE_FIELD in reach.payload else None
    if target.repository != reach.effect_scope:
        raise _denied(
            target,
            f"the worker's profile may write to {show(reach.effect_scope)} only",
            "deliver there; a resource_scope narrows the profile and never widens it",
        )
    if target.run_id is not UNSET and target.run_id != reach.run_id:
        raise _denied(
            target, f"the worker's own run is {show(reach.run_id)}", "name that run, or none"
        )
    if reach.subject is not None:
        _check_subject(target, reach.subject)
    if scope is not None and not any(one.matches(target) for one in scope.resources):
        count = len(scope.resources)
        raise _denied(
            target,
            f"none of the {count} resources in the Work's scope is it"
            if count
            else "the Work's scope is empty, which denies everything",
            "widen the Work's resource_scope, or deliver elsewhere",
        )


def parse_target(value: object, host: str = DEFAULT_HOST) -> Target:
    """A target, on `host` if it names any, or `target_invalid` with its faults."""
    faults = faults_of(Target, value)
    if not faults:
        assert isinstance(value, dict)
        faults = [
            Fault(f"/{name}", f"{show(text)} holds '..'")
            for name, text in value.items()
            if ".." in text
        ]
        if value.get("host", host) != host:
            faults.append(Fault("/host", f"{show(value['host'])} is not the board's, {show(host)}"))
    if faults:
        raise refuse("target_invalid", "target", faults, "name the target by its own plain fields")
    return msgspec.convert(value, Target)


def parse_scope(value: object) -> ResourceScope:
    """A payload's resource scope, or `scope_invalid`."""
    scope = parse(ResourceScope, value, what="resource scope", code="scope_invalid")
    if len(set(map(repr, scope.resources))) != len(scope.resources):
        raise CallboardError(
            "scope_invalid", "the resource scope names a resource twice", "name each once"
        )
    return scope


def _check_subject(target: Target, subject: Resource) -> None:
    """A ref, a path or a run is nobody's but the repository's; all else is the subject itself."""
    given = target.document()
    only_place = any(name in given for name in _PLACE) and not any(name in given for name in _ITEM)
    fields = ("repository",) if only_place else subject.__struct_fields__
    for name in fields:
        wanted = getattr(subject, name)
        if given.get(name) != wanted:
            raise _denied(
                target,
                f"the Work is about {name} {show(wanted)}",
                "deliver to the Work's subject, named in full",
            )


def _denied(target: Target, found: str, hint: str) -> CallboardError:
    given = target.document()
    named = ", ".join(f"{name} {show(value)}" for name, value in given.items())
    return CallboardError(
        "effect_scope_denied", f"{named} may not be touched: {found}", hint, {"target": given}
    )
