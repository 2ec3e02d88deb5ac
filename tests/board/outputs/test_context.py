"""The trusted context of an agent: what is taken, and that a fault never makes an observer."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard import canonical
from callboard.board.outputs.context import (
    MAX_CONTEXT_BYTES,
    AgentContext,
    AgentTerms,
    read_context,
    write_context,
)
from tests.board.building import refused

TERMS = AgentTerms(max_dispatches=2, max_claims=4, pool="default")


def context(role: Any = "producer", **changes: Any) -> AgentContext:
    """A sound context of a role."""
    folder = {} if role == "observer" else {"staging": "/run/staging"}
    held = {"assignment": "/run/assignment.json"} if role == "worker" else {}
    terms = TERMS if role in ("producer", "dispatcher") else None
    given: dict[str, Any] = {
        "snapshot": "/run/snapshot.json",
        "staging": None,
        "assignment": None,
        "terms": terms,
    }
    return AgentContext(version=1, role=role, **(given | folder | held | changes))


@pytest.mark.parametrize("role", ["observer", "producer", "dispatcher", "worker"])
def test_what_was_written_is_read(tmp_path: Path, role: str) -> None:
    path = tmp_path / "context.json"
    written = context(role, work_tree="/run/work")
    write_context(path, written)
    assert read_context(path) == written
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_every_agreed_field_is_on_file_also_where_it_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "context.json"
    write_context(path, context("observer"))
    assert canonical.decode(path.read_bytes().strip()) == {
        "version": 1,
        "role": "observer",
        "snapshot": "/run/snapshot.json",
        "staging": None,
        "assignment": None,
        "terms": None,
    }


@pytest.mark.parametrize(
    ("role", "changes"),
    [
        ("observer", {"staging": "/run/staging"}),
        ("observer", {"terms": TERMS}),
        ("observer", {"assignment": "/run/assignment.json"}),
        ("producer", {"staging": None}),
        ("producer", {"assignment": "/run/assignment.json"}),
        ("dispatcher", {"staging": None}),
        ("worker", {"staging": None}),
        ("producer", {"staging": "staging"}),
        ("worker", {"assignment": "../assignment.json"}),
        ("observer", {"snapshot": "snapshot.json"}),
        ("observer", {"snapshot": "/a\0b"}),
        ("worker", {"work_tree": "work"}),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(
    tmp_path: Path, role: str, changes: dict[str, Any]
) -> None:
    path = tmp_path / "context.json"
    write_context(path, context(role, **changes))
    assert refused(read_context, path).code == "context_invalid"


def test_a_worker_without_an_assignment_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "context.json"
    write_context(path, context("worker", assignment=None))
    assert refused(read_context, path).code == "assignment_invalid"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        b'{"role":"observer"}',
        b"\xff",
        b"{" * 2_000,
        b" " * (MAX_CONTEXT_BYTES + 1),
    ],
)
def test_bytes_that_are_no_context_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "context.json"
    path.write_bytes(data)
    path.chmod(0o600)
    assert refused(read_context, path).code == "context_invalid"


@pytest.mark.parametrize("change", [{"role": "administrator"}, {"version": 2}, {"roles": ["x"]}])
def test_the_record_is_closed(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "context.json"
    value = {**msgspec.to_builtins(context()), **change}
    path.write_bytes(canonical.encode(value))
    path.chmod(0o600)
    assert refused(read_context, path).code == "context_invalid"


def test_only_a_plain_file_that_nobody_else_can_write_is_read(tmp_path: Path) -> None:
    path = tmp_path / "context.json"
    assert refused(read_context, path).code == "context_invalid"
    write_context(path, context())
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        assert refused(read_context, path).code == "context_invalid"
    path.chmod(0o600)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for other in (link, pipe, tmp_path):
        assert refused(read_context, other).code == "context_invalid"
    assert read_context(path).role == "producer"
