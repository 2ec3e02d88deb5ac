"""Every combination of profile, scope, subject and target, against the rules told a second time.

`told` is the rules as somebody would check them by hand: plain dictionaries, loops, and nothing of
the engine's.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec
import pytest

from callboard.board.outputs.decision import Question, denial
from callboard.board.protocol.operations import Resource

Plain = dict[str, Any]

RUN = "77"
ISSUE = {
    "kind": "issue", "host": "github.com", "repository": "o/n", "repository_id": "1",
    "resource_id": "2", "number": "3",
}  # fmt: skip
OTHERS = {
    "kind": "pull_request", "repository_id": "91", "resource_id": "92", "number": "93",
}  # fmt: skip
KNOWN = [
    "repository", "kind", "host", "repository_id", "resource_id", "number", "comment_id",
    "run_id", "ref", "path",
]  # fmt: skip


# --- the rules, told again ----------------------------------------------------------------------


def told(
    profile: str, host: str | None, scope: Any, subject: Plain | None, target: Any
) -> str | None:
    """The code of the refusal, or None where the target may be touched."""
    board = "github.com" if host is None else host
    if not well_formed(target, board):
        return "target_invalid"
    if scope is not ABSENT and not sound(scope):
        return "scope_invalid"
    placed = dict(target)
    if placed["repository"] != profile:
        return "effect_scope_denied"
    if "run_id" in placed and placed["run_id"] != RUN:
        return "effect_scope_denied"
    if subject is not None and not is_about(placed, subject):
        return "effect_scope_denied"
    if scope is ABSENT:
        return None
    for selector in scope["resources"]:
        fits = True
        for name in selector:
            if name not in placed or placed[name] != selector[name]:
                fits = False
        if fits:
            return None
    return "effect_scope_denied"


def is_about(target: Plain, subject: Plain) -> bool:
    place = "run_id" in target or "ref" in target or "path" in target
    item = False
    for name in ("kind", "number", "resource_id", "comment_id"):
        if name in target:
            item = True
    if place and not item:
        return bool(target["repository"] == subject["repository"])
    return all(name in target and target[name] == subject[name] for name in subject)


def well_formed(target: Any, board: str) -> bool:
    if type(target) is not dict or "repository" not in target:
        return False
    for name, value in target.items():
        if name not in KNOWN or type(value) is not str or not is_plain(value):
            return False
        if name in ("number", "comment_id", "run_id") and not is_decimal(value):
            return False
        if len(value.encode()) > (4096 if name in ("ref", "path") else 256):
            return False
        if name == "kind" and value not in ("issue", "pull_request"):
            return False
        if name == "host" and value != board:
            return False
        if name == "repository" and not re.fullmatch(r"[^/\s]+/[^/\s]+", value):
            return False
    return True


def is_plain(value: str) -> bool:
    if not value or ".." in value:
        return False
    return all(ord(char) >= 32 and ord(char) != 127 for char in value)


def is_decimal(value: str) -> bool:
    for char in value:
        if char not in string.digits:
            return False
    return value[0] != "0"


def sound(scope: Any) -> bool:
    """The scopes of the grid are either sound or one of those that are listed as broken."""
    return all(scope is not broken for broken in BROKEN_SCOPES)


# --- the grid -----------------------------------------------------------------------------------

ABSENT = object()
PROFILES = ["o/n", "o/m"]
HOSTS: list[str | None] = [None, "git.example"]
SUBJECTS: list[Plain | None] = [
    None,
    ISSUE,
    ISSUE | {"kind": "pull_request"},
    ISSUE | {"repository": "o/m"},
    ISSUE | {"host": "git.example"},
]


def scope_of(*selectors: Plain) -> Plain:
    return {"version": 1, "resources": list(selectors)}


BROKEN_SCOPES: list[Any] = [
    None,
    {"version": 1},
    scope_of({"repository": "o/n"}, {"repository": "o/n"}),
    scope_of({"repository": "o/n", "branch": "x"}),
]
SCOPES: list[Any] = [
    ABSENT,
    scope_of(),
    scope_of({"repository": "o/n"}),
    scope_of({"repository": "o/m"}),
    scope_of({"repository": "o/n", "kind": "issue"}),
    scope_of({"repository": "o/n", "host": "github.com"}),
    scope_of({"repository": "o/n", "host": "git.example"}),
    scope_of({"repository": "o/n", "repository_id": "1"}),
    scope_of({"repository": "o/n", "number": "93"}, {"repository": "o/n", "resource_id": "2"}),
    scope_of({"repository": "o/n", "comment_id": "4"}),
    scope_of({"repository": "o/n", "run_id": RUN}),
    scope_of({"repository": "o/n", "ref": "refs/heads/x", "path": "a/b"}),
    scope_of({"repository": "o/n", "path": "a/b"}),
    scope_of(ISSUE),
    *BROKEN_SCOPES,
]


def targets() -> list[Any]:
    found = list(sound_targets())
    for name, value in (
        ("branch", "x"), ("host", "evil.example"), ("ref", ""), ("ref", None), ("path", "a/../b"),
        ("path", "a\x7f"), ("path", "a\n"), ("number", "03"), ("number", 3), ("comment_id", "x"),
        ("run_id", "-77"), ("kind", "all"), ("repository", "o"), ("repository", "o/n/x"),
        ("resource_id", ".."), ("repository_id", ["1"]), ("path", "x" * 4097),
    ):  # fmt: skip
        found.append(ISSUE | {"ref": "refs/heads/x", name: value})
    found += [one | {"path": "a/c"} for one in items()]
    return [*found, None, [], "o/n", {}, {"ref": "refs/heads/x"}]


def sound_targets() -> Iterator[Plain]:
    for item, comment, run, ref, path in product(
        items(), (None, "4"), (None, RUN, "78"), (None, "refs/heads/x"), (None, "a/b")
    ):
        rest = {"comment_id": comment, "run_id": run, "ref": ref, "path": path}
        yield item | {name: value for name, value in rest.items() if value is not None}


def items() -> Iterator[Plain]:
    """The subject in full, with each field missing or another, some of its fields, or none."""
    yield ISSUE
    yield {"repository": "o/n"}
    yield {"repository": "o/m"}
    yield {"repository": "o/n", "host": "git.example"}
    yield ISSUE | {"repository": "o/m"}
    for name, value in ISSUE.items():
        if name != "repository":
            yield {key: known for key, known in ISSUE.items() if key != name}
            yield {"repository": "o/n", name: value}
    for name, value in OTHERS.items():
        yield ISSUE | {name: value}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("host", HOSTS)
def test_the_engine_decides_as_the_rules_are_told(profile: str, host: str | None) -> None:
    asked = targets()
    seen: Counter[str | None] = Counter()
    for scope, subject in product(SCOPES, SUBJECTS):
        payload = {} if scope is ABSENT else {"resource_scope": scope}
        record = msgspec.UNSET if subject is None else msgspec.convert(subject, Resource)
        for target in asked:
            refusal = denial(
                Question(
                    effect_scope=profile,
                    run_id=RUN,
                    payload=payload,
                    target=target,
                    host=msgspec.UNSET if host is None else host,
                    subject=record,
                )
            )
            found = None if refusal is None else refusal.code
            assert found == told(profile, host, scope, subject, target), (scope, subject, target)
            seen[found] += 1
    assert sum(seen.values()) == len(asked) * len(SCOPES) * len(SUBJECTS)
    assert set(seen) == {None, "target_invalid", "scope_invalid", "effect_scope_denied"}
    assert min(seen.values()) >= 50, seen
