"""Which targets a Work's resource scope and its worker's profile permit."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.board.outputs.resources import Target, check_target
from callboard.board.protocol.operations import Resource
from callboard.errors import CallboardError

TARGET = Target(repository="o/n", ref="refs/heads/callboard/abc-1")
SUBJECT = Resource(
    kind="issue",
    host="github.com",
    repository="o/n",
    repository_id="1",
    resource_id="2",
    number="3",
)


def check(scope: Any = None, *, effect_scope: str = "o/n", subject: Resource | None = None) -> str:
    payload = {} if scope is None else {"resource_scope": scope}
    try:
        check_target(TARGET, effect_scope=effect_scope, payload=payload, subject=subject)
    except CallboardError as error:
        return error.code
    return "permitted"


def resources(*found: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "resources": list(found)}


def test_absent_inherits_the_profile() -> None:
    assert check() == "permitted"
    assert check(effect_scope="o/other") == "effect_scope_denied"


def test_an_empty_list_denies_everything() -> None:
    assert check(resources()) == "effect_scope_denied"


def test_every_given_field_must_match() -> None:
    assert check(resources({"repository": "o/n"})) == "permitted"
    assert check(resources({"repository": "o/n", "ref": TARGET.ref})) == "permitted"
    assert check(resources({"repository": "o/n", "ref": "refs/heads/x"})) == "effect_scope_denied"
    assert check(resources({"repository": "o/n", "number": "3"})) == "effect_scope_denied"
    assert check(resources({"repository": "o/m"}, {"repository": "o/n"})) == "permitted"


def test_a_scope_is_never_wider_than_the_profile() -> None:
    assert check(resources({"repository": "o/n"}), effect_scope="o/m") == "effect_scope_denied"


def test_of_a_subject_a_ref_shares_the_repository() -> None:
    assert check(subject=SUBJECT) == "permitted"
    foreign = Resource(
        kind="issue", host="h", repository="o/x", repository_id="1", resource_id="2", number="3"
    )
    assert check(subject=foreign) == "effect_scope_denied"


@pytest.mark.parametrize(
    "scope",
    [
        {}, [], "all", {"version": 2, "resources": []}, resources({"repository": "o"}),
        resources({"repository": "o/n", "branch": "x"}), resources({"ref": "refs/heads/x"}),
        resources({"repository": "o/n"}, {"repository": "o/n"}),
        resources({"repository": "o/n", "ref": None}),
    ],
)  # fmt: skip
def test_a_malformed_scope_permits_nothing(scope: Any) -> None:
    assert check(scope) == "scope_invalid"
