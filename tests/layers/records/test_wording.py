"""The fault of a record is told in plain words, with its place and what was found there."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from callboard.layers.records.base import convert, digest, encode, read
from callboard.layers.records.evaluation import Check
from callboard.layers.records.session import RepositoryIdentity
from callboard.layers.records.state import RoleHistory, State
from callboard.layers.records.workflow import Harness
from tests.board.building import refused

IDENTITY = {"schema_version": 1, "repository_id": "a", "created_at_ms": 1}
STATE = {
    "schema_version": 1, "session_id": "a", "revision": 1, "status": "running", "changed_at_ms": 0,
}  # fmt: skip
ID = (
    "must be an id: at most 128 of the letters A-Z and a-z, digits, `.`, `_` and `-`,"
    " the first a letter or digit"
)


@pytest.mark.parametrize(
    ("kind", "value", "message", "pointer"),
    [
        (RepositoryIdentity, IDENTITY | {"repository_id": "a/b"},
         f'it: /repository_id {ID}; it is "a/b"', "/repository_id"),
        (RepositoryIdentity, IDENTITY | {"schema_version": 2},
         "it: /schema_version must be 1; it is 2", "/schema_version"),
        (RepositoryIdentity, IDENTITY | {"created_at_ms": -1},
         "it: /created_at_ms must be 0 or more; it is -1", "/created_at_ms"),
        (RepositoryIdentity, IDENTITY | {"created_at_ms": True},
         "it: /created_at_ms must be a whole number, not true or false; it is true",
         "/created_at_ms"),
        (RepositoryIdentity, [], ("it: the document must be an object, not an array;"
         " it is an array of 0"), ""),
        (RoleHistory, {"runs": 1, "x": 2},
         ("it: the document has the field `x`, which is not one of its fields;"
         " it is an object with runs, x"), ""),
        (RoleHistory, {"seen_successes": {"b": 1, "A": 1}},
         ("it: the name of /seen_successes/A must be a name: at most 64 of the letters a-z,"
         ' digits and `_`, the first a letter; it is "A"'), "/seen_successes/A"),
        (State, STATE | {"status": "ended"},
         ('it: /status must be one of "goal_met", "running", "stopped", "unresolvable_error";'
         ' it is "ended"'), "/status"),
        (State, STATE | {"roles": {"a": {}, "b": {"seen_successes": {"c": 0, "d": -1}}}},
         "it: /roles/b/seen_successes/d must be 0 or more; it is -1", "/roles/b/seen_successes/d"),
        (State, STATE | {"rolled_sessions": ["a", "b/"]},
         f'it: /rolled_sessions/1 {ID}; it is "b/"', "/rolled_sessions/1"),
        (State, STATE | {"task": 3},
         "it: /task must be an object or null, not a whole number; it is 3", "/task"),
        (State, STATE | {"controls_seen": ["sha256:12"]},
         ("it: /controls_seen/0 must be a digest: `sha256:` and 64 of the digits 0-9 and a-f;"
         ' it is "sha256:12"'), "/controls_seen/0"),
        (Check, {"kind": "guess"}, 'it: /kind must be "command" or "judge"; it is "guess"',
         "/kind"),
        (Check, {}, "it: the document lacks the field `kind`; it is an object with no field", ""),
        (Harness, {"command": []}, "it: /command must have 1 or more entries; it is an array of 0",
         "/command"),
    ],
)  # fmt: skip
def test_a_fault_is_told_plainly(kind: Any, value: object, message: str, pointer: str) -> None:
    error = refused(convert, value, kind, "it")
    assert error.message == message
    assert error.code == "record_invalid"
    assert error.details == {"what": "it", "pointer": pointer}


@pytest.mark.parametrize(
    "value",
    [
        {"x` - at `$.y": 1}, {"\x1b[31m": 1}, {"\ud800": 1}, {"a" * 100_000: 1}, {1: 1},
        {"command": ["\ud800\0"]}, {"command": [1.5]}, {"command": [float("nan")]},
        {"command": [datetime.date(2026, 1, 31)]}, {"command": [10**5000]},
        {"command": [{1: 2, "a": 3}]}, {"command": {"a": 1}}, {"command": ["\u202e\0"]},
    ],
)  # fmt: skip
def test_whatever_stands_there_the_message_stays_plain(value: object) -> None:
    error = refused(convert, value, Harness, "it")
    assert error.code == "record_invalid"
    assert error.message.isprintable()
    assert len(error.message) < 500


def test_a_name_that_looks_like_a_place_is_none() -> None:
    error = refused(convert, {"x` - at `$.y": 1}, Harness, "it")
    assert error.details["pointer"] == ""


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"{}{}", b'{"a":1,"a":2}', b"\0\0\0", b'{"a":1.5}', b"[" * 9]
)
def test_what_is_no_document_is_told(data: bytes) -> None:
    error = refused(read, data, RepositoryIdentity, "it")
    assert error.code == "record_invalid"
    assert error.details["what"] == "it"


def test_bytes_are_canonical_and_are_read_in_any_layout() -> None:
    record = convert(IDENTITY, RepositoryIdentity, "it")
    data = b'{"created_at_ms":1,"repository_id":"a","schema_version":1}\n'
    assert encode(record) == data
    assert read(data, RepositoryIdentity, "it") == record
    loose = b' {\n"schema_version": 1, "repository_id": "\\u0061", "created_at_ms": 1\n}\n\n'
    assert read(loose, RepositoryIdentity, "it") == record
    assert digest(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_what_is_nested_too_deep_is_told_with_its_file() -> None:
    error = refused(read, b"[" * 100, RepositoryIdentity, "it")
    assert error.code == "resource_limit"
    assert error.message.startswith("it: nested deeper")
    assert error.details["what"] == "it"
