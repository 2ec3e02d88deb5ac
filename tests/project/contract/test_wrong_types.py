"""Whatever a caller hands in, of any type: an answer or a refusal with a code, and nothing else."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.project.project import Project
from callboard.project.records import Artifact
from callboard.project.source.answers import AddItem, SetFields
from tests.project.contract.stores import Opened

DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]

NOTHING: Any = None
LIST: Any = []
NUMBER: Any = 5
NUMBERED: Any = {1: 2}
WRONG: dict[str, Any] = {
    "none": None,
    "true": True,
    "number": 5,
    "negative": -1,
    "fraction": 0.5,
    "no number": float("nan"),
    "long number": 10**5000,
    "bytes": b"x",
    "text": "x",
    "empty text": "",
    "lone surrogate": "\ud800",
    "null character": "a\0b",
    "long text": "x" * 100_000,
    "list": [],
    "list of none": [None],
    "list of numbers": [1, 2],
    "list of a long number": [10**5000],
    "deep list": DEEP,
    "tuple": (1,),
    "set": {1},
    "dictionary": {},
    "numbered dictionary": {1: 2},
    "nested": {"a": {"b": object()}},
    "deep dictionary": {"a": DEEP},
    "object": object(),
    "type": int,
    "function": print,
    "path": Path("a"),
    "artifact": Artifact(ref="a", sha256="0" * 64),
    "empty artifacts": [Artifact(ref=NOTHING, sha256=NOTHING)],
    "artifact of lists": [Artifact(ref=LIST, sha256=LIST)],
    "change of nothing": [SetFields(work=NOTHING, values=NOTHING)],
    "change of a list": [SetFields(work="A", values=LIST)],
    "change of numbers": [SetFields(work="A", values=NUMBERED)],
    "change of an unlisted value": [SetFields(work=LIST, values={"title": "x"})],
    "item of nothing": [AddItem(values=NOTHING)],
    "item of a list": [AddItem(values={"id": "N", "title": "n", "tags": [[]]})],
    "item of a number": [AddItem(values={"id": "N", "title": 10**5000})],
    "item in a number": [AddItem(values={"id": "N", "title": "n"}, file=NUMBER)],
}
GROUPS = [name for name in Project.__slots__ if not name.startswith("_")]


def methods(project: Project) -> Iterator[tuple[str, Callable[..., Any]]]:
    """All that a caller can ask for, but the end of it."""
    owners = [("", project), *((f"{name}.", getattr(project, name)) for name in GROUPS)]
    for before, owner in owners:
        for name, method in inspect.getmembers(owner, callable):
            if not name.startswith("_") and name != "close":
                yield f"{before}{name}", method


def right(opened: Opened, session: str) -> dict[str, Any]:
    """A value for each parameter that must be given."""
    return {
        "agent": "codex",
        "body": {"a": 1},
        "branch": "main",
        "changes": [SetFields(work="A", values={"title": "Other"})],
        "claim": "c_nobody",
        "digest": "half",
        "expected_revision": 1,
        "key": "A",
        "kind": "test",
        "name": "side",
        "next_action": "go on",
        "path": opened.root,
        "reason": "why",
        "request_id": "r1",
        "session": session,
        "summary": "green",
        "ttl_ms": 60_000,
        "type": "note.taken",
        "work": "A",
    }


def one_wrong(method: Callable[..., Any], values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments of a call in which one is of each wrong kind, the others being right."""
    parameters = inspect.signature(method).parameters.values()
    needed = {one.name: values[one.name] for one in parameters if one.default is one.empty}
    for parameter in parameters:
        for wrong in WRONG.values():
            yield needed | {parameter.name: wrong}


def test_nothing_but_refusals_comes_of_wrong_values(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some of the wrong texts are folders below this one all the same.
    monkeypatch.chdir(tmp_path)
    refusals: dict[str, list[CallboardError]] = defaultdict(list)
    session = opened.project.sessions.start("B", "codex").session.id
    for name, method in methods(opened.project):
        for arguments in one_wrong(method, right(opened, session)):
            try:
                found = method(**arguments)
            except CallboardError as error:
                refusals[name].append(error)
            else:
                if isinstance(found, Project):
                    found.close()
    every = [error for errors in refusals.values() for error in errors]
    assert len(every) > 1_000
    assert [error for error in every if not (error.message and error.hint)] == []


@pytest.mark.parametrize(
    ("method", "arguments", "code"),
    [
        ("source.patch", {"changes": None}, "source_change_invalid"),
        (
            "source.patch",
            {"changes": [SetFields(work="A", values=NOTHING)]},
            "source_change_invalid",
        ),
        ("sessions.checkpoint", {"artifacts": None}, "value_invalid"),
        ("sessions.checkpoint", {"artifacts": [None]}, "value_invalid"),
        ("open", {"path": None}, "value_invalid"),
        ("open", {"path": 5}, "value_invalid"),
        ("open", {"path": b"x"}, "value_invalid"),
        ("create", {"path": 10**5000}, "value_invalid"),
        ("diagnose", {"path": []}, "value_invalid"),
        ("work.show", {"key": 10**5000}, "name_invalid"),
        ("work.show", {"key": DEEP}, "name_invalid"),
    ],
)
def test_the_code_of_what_is_wrong(
    opened: Opened, method: str, arguments: dict[str, Any], code: str
) -> None:
    session = opened.project.sessions.start("B", "codex").session.id
    calls = dict(methods(opened.project))
    parameters = inspect.signature(calls[method]).parameters.values()
    values = right(opened, session)
    needed = {one.name: values[one.name] for one in parameters if one.default is one.empty}
    with pytest.raises(CallboardError) as found:
        calls[method](**(needed | arguments))
    assert found.value.code == code
