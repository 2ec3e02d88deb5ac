"""What three agents do with one project, step by step: every operation, and its refusals.

`$name` stands for what an earlier step kept under that name, `$revision` for the last revision.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

SHA = "ab" * 32


class Step(NamedTuple):
    """An operation, what it is given, the code it is refused with, and what to keep of it."""

    words: str
    arguments: dict[str, Any]
    code: str | None = None
    keep: Mapping[str, str] = MappingProxyType({})
    before: str = ""
    """A statement that another program gives to the database first."""


def does(words: str, keep: dict[str, str] | None = None, /, **arguments: Any) -> Step:
    """A step that is done."""
    return Step(words, arguments, None, keep or {})


def refused(code: str, words: str, /, **arguments: Any) -> Step:
    """A step that is refused."""
    return Step(words, arguments, code)


_START = {"work": "A", "agent": "codex", "provider": "p", "model": "m", "claim": True}
_FIRST = {**_START, "ttl_ms": 600_000, "request_id": "r1"}
_SET = [{"work": "B", "values": {"title": "Do B well", "tags": ["x"]}}]

SCRIPT: tuple[Step, ...] = (
    does("init", goal="Try it"),
    refused("value_invalid", "init", goal="two\nlines", key="x"),
    refused("revision_conflict", "init", accept=True, expected_revision=1),
    does("init", accept=True, key="demo", expected_revision=0, request_id="r0"),
    does("init", accept=True, key="demo", expected_revision=0, request_id="r0"),
    refused("request_conflict", "init", accept=True, key="demo", goal="x", request_id="r0"),
    refused("revision_conflict", "init", accept=True, expected_revision=0),
    does("receipt show", request_id="r0"),
    refused("not_found", "receipt show", request_id="r1"),
    refused("request_id_invalid", "receipt show", request_id="a b"),
    refused("project_exists", "init", accept=True, key="other"),
    does("status"),
    does("ready"),
    refused("value_invalid", "ready", limit=0),
    refused("not_found", "ready", branch="nowhere"),
    does("work list"),
    does("work list", {"cursor": "next"}, limit=2),
    does("work list", limit=2, after="$cursor"),
    refused("cursor_invalid", "work list", after="x"),
    does("work show", work="C", branch="main"),
    refused("not_found", "work show", work="a"),
    # --- sessions and claims --------------------------------------------------------------------
    does("session start", {"s1": "session/id", "c1": "claim/id"}, **_FIRST),
    does("session start", **_FIRST),
    refused("request_conflict", "session start", **{**_FIRST, "work": "B"}),
    refused("claim_held", "session start", **{**_START, "agent": "claude"}),
    refused("revision_conflict", "session start", work="B", agent="x", expected_revision=1),
    refused("agent_undeclared", "session start", work="B"),
    refused("ttl_invalid", "session start", **{**_START, "ttl_ms": 0}),
    refused("ttl_invalid", "session start", **{**_START, "ttl_ms": 2**53}),
    refused("ttl_invalid", "session start", work="B", agent="x", ttl_ms=5),
    refused("name_invalid", "session start", work="B", agent="a\u202eb"),
    does("session next", {"s2": "session/id"}, agent="claude", ttl_ms=600_000, branch="main"),
    does("session next", agent="third"),
    refused("not_found", "session next", agent="third", branch="old"),
    refused("ttl_invalid", "session next", agent="third", ttl_ms=1.5),
    does("session show", session="$s1", work="A"),
    does("session show", agent="claude", branch="main"),
    refused("session_ambiguous", "session show"),
    refused("session_mismatch", "session show", session="$s1", agent="claude"),
    does("session list", {"cursor": "next"}, active=True, limit=1),
    does("session list", active=True, limit=1, after="$cursor"),
    refused("value_invalid", "session list", limit=501),
    does(
        "session checkpoint",
        session="$s1",
        digest="half of it\nis done",
        next_action="do the rest",
        open_loops=["who reads it?", "when?"],
        context_sha256=SHA,
        artifacts=[{"ref": "notes.md", "sha256": SHA}],
        agent="codex",
    ),
    refused(
        "session_mismatch",
        "session checkpoint",
        session="$s1",
        digest="d",
        next_action="n",
        agent="claude",
    ),
    refused(
        "value_invalid",
        "session checkpoint",
        session="$s1",
        digest="d",
        next_action="n",
        artifacts=[{"ref": "x", "sha256": "short"}],
    ),
    does("claim show", work="A"),
    refused("not_found", "claim show", work="Z"),
    does("claim renew", session="$s1", ttl_ms=1_200_000),
    refused("ttl_invalid", "claim renew", session="$s1", ttl_ms=-5),
    does("claim release", session="$s2"),
    refused("claim_not_holder", "claim release", session="$s2"),
    does("claim acquire", session="$s2", expected_revision="$revision"),
    refused("claim_held", "claim acquire", session="$s2"),
    # --- history and evidence -------------------------------------------------------------------
    does("event append", type="note.taken", body={"a": [1, None, "é"]}, session="$s1"),
    refused("event_type_reserved", "event append", type="work.completed", body={}),
    refused("session_mismatch", "event append", type="a.b", body={}, session="$s1", branch="old"),
    refused("body_invalid", "event append", type="a.b", body=[]),
    does("event list", {"cursor": "next"}, session="$s1", branch="main", limit=2),
    does("event list", session="$s1", branch="main", limit=2, after="$cursor"),
    refused("cursor_invalid", "event list", session="$s1", after="$cursor"),
    refused("acceptance_uncovered", "work complete", work="A", session="$s1"),
    does("evidence add", session="$s1", kind="test", summary="green", covers=["it runs"]),
    does(
        "evidence add",
        session="$s1",
        kind="page",
        summary="told",
        covers=["it is told of"],
        ref="docs/a.md",
        sha256=SHA,
    ),
    refused("criterion_unknown", "evidence add", work="A", kind="t", summary="s", covers=["no"]),
    does("evidence list", work="A", current=True, limit=1),
    refused("not_found", "evidence list", branch="nowhere"),
    does("work complete", work="A", session="$s1"),
    refused("session_mismatch", "work complete", work="B", session="$s1"),
    does("work show", work="A"),
    # --- branches and successors ----------------------------------------------------------------
    does("branch create", name="side"),
    does("session start", {"s9": "session/id"}, work="B", agent="aside", branch="side"),
    # That somebody says main counts as much as that they say anything else.
    refused("session_mismatch", "event append", type="a.b", body={}, session="$s9", branch="main"),
    refused(
        "session_mismatch",
        "evidence add",
        kind="test",
        summary="green",
        session="$s9",
        branch="main",
    ),
    refused("session_mismatch", "session show", session="$s9", branch="main"),
    does("event append", type="a.b", body={}, session="$s9"),
    does("session end", session="$s9"),
    refused("name_taken", "branch create", name="Side"),
    does("branch select", name="side"),
    refused("branch_protected", "branch close", name="main"),
    refused("branch_not_current", "session resume", session="$s1", agent="claude"),
    does("branch select", name="main"),
    does("branch close", name="side"),
    refused("branch_closed", "branch select", name="side"),
    does("branch list"),
    does("session handoff", {"s3": "session/id"}, session="$s1", agent="claude"),
    refused("successor_exists", "session handoff", session="$s1", agent="claude"),
    does("session interrupt", session="$s3"),
    refused("session_not_active", "session interrupt", session="$s3"),
    does("session resume", {"s4": "session/id"}, session="$s3", agent="codex", claim=False),
    refused("successor_exists", "session resume", session="$s3", agent="codex"),
    refused("ttl_invalid", "session resume", session="$s4", agent="x", claim=False, ttl_ms=5),
    does("session end", session="$s4", outcome="as planned"),
    refused("session_not_active", "session end", session="$s4"),
    # --- files and the doctor -------------------------------------------------------------------
    does("source scan"),
    does("source patch", changes=_SET),
    does("source patch", changes=_SET, accept=True, request_id="r2"),
    does("source patch", changes=_SET, accept=True, request_id="r2"),
    does("source patch", changes=[{"values": {"id": "D", "title": "Do D"}}], accept=True),
    refused("not_found", "source patch", changes=[{"work": "Z", "values": {"title": "t"}}]),
    refused("field_unknown", "source patch", changes=[{"work": "A", "values": {"titel": "t"}}]),
    refused("source_change_invalid", "source patch", changes=[]),
    refused("arguments_invalid", "source patch", changes=[{"work": "A"}]),
    refused("arguments_invalid", "source patch", changes=[{"work": 1, "values": {}}]),
    refused("arguments_invalid", "source patch", changes=[{"values": {}, "more": 1}]),
    refused("arguments_invalid", "source patch", changes=["A"]),
    refused("arguments_invalid", "source patch", changes={"work": "A"}),
    refused("source_conflict", "source patch", changes=_SET, sha256=SHA),
    does("source index"),
    refused("revision_conflict", "source index", expected_revision=1),
    does("session end", session="$s2"),
    does(
        "session start", {"c2": "claim/id"}, work="B", agent="late", claim=True, ttl_ms=1
    ),
    does("doctor"),
    refused("text_invalid", "doctor repair expire-claim", claim="$c2", reason=" ",
            expected_revision="$revision"),
    does("doctor repair expire-claim", claim="$c2", reason="it is over",
         expected_revision="$revision"),
    refused("claim_not_expired", "doctor repair expire-claim", claim="$c1", reason="why",
            expected_revision="$revision"),
    refused("clock_not_behind", "doctor repair clock", reason="why", expected_revision="$revision"),
    does("doctor repair clock", reason="it was ahead", expected_revision="$revision")._replace(
        before="UPDATE projects SET clock_ms = clock_ms + 600000"
    ),
)  # fmt: skip


class Memory:
    """What steps on the project in a folder kept, and the arguments that are made of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, Any] = {}

    def arguments(self, step: Step) -> dict[str, Any]:
        """The arguments of a step, after what comes before it was done."""
        if step.before:
            connection = sqlite3.connect(self._folder / ".callboard" / "project.db")
            with connection:
                connection.execute(step.before)
            connection.close()
        return {name: self._value(value) for name, value in step.arguments.items()}

    def _value(self, value: Any) -> Any:
        return self._kept[value[1:]] if isinstance(value, str) and value[:1] == "$" else value

    def keep(self, step: Step, document: dict[str, Any]) -> None:
        """Remember what the step is to leave."""
        if document.get("project_revision") is not None:
            self._kept["revision"] = document["project_revision"]
        for name, path in step.keep.items():
            found: Any = document
            for part in path.split("/"):
                found = found[part]
            assert found, (step, document)
            self._kept[name] = found
