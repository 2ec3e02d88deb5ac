"""Refusals with several faults: each is told with as much of its place as its maker knew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from callboard.errors import CallboardError
from callboard.surfaces.cli.endings import _refusal
from tests.layers.machine import Machine
from tests.surfaces.cli.layered import Layered


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ({"pointer": "/a/0", "message": "m"}, "/a/0: m"),
        ({"pointer": "", "message": "m"}, "/: m"),
        ({"message": "m"}, "/: m"),
        ({"line": 3, "message": "m"}, "line 3: m"),
        ({"line": 3, "column": 5, "pointer": "/a", "message": "m"}, "line 3:5 /a: m"),
        (
            {"file": "c.yaml", "line": 3, "column": 5, "pointer": "/a", "message": "m"},
            "c.yaml:3:5 /a: m",
        ),
        (
            {"file": "c.yaml", "line": 1, "column": 1, "pointer": "", "message": "m"},
            "c.yaml:1:1: m",
        ),
    ],
)
def test_a_fault_is_told_with_its_place(fault: dict[str, object], line: str) -> None:
    error = CallboardError("some_code", "what", "hint", {"faults": [fault, fault]})
    assert _refusal(error)[1:3] == [f"  {line}", f"  {line}"]


LEDGER = """## part: A part
```yaml
status: nope
more: 1
workflow_set: 7
```
"""


def test_a_ledger_with_several_faults_is_refused_with_each_of_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    attempt = machine.begin()
    (attempt.path("project_state") / "work_items.md").write_text(LEDGER)
    here = Layered(machine.root)
    answer = here.call("dispatch", "--assignment", str(attempt.assignment), "part")
    assert answer.status == 1
    lines = answer.stderr.splitlines()
    assert [one.partition(": ")[0] for one in lines[1:4]] == ["  line 3", "  line 4", "  line 5"]
    assert lines[-1] == "code: work_items_invalid"
    answer = here.call("dispatch", "--assignment", str(attempt.assignment), "part", "--json")
    assert answer.status == 1
    assert len(json.loads(answer.stdout)["error"]["details"]["faults"]) == 3


def test_a_set_with_several_faults_is_refused_with_the_file_of_each(tmp_path: Path) -> None:
    machine = Machine(tmp_path, start=False)
    role = ".callboard/workflow_sets/all/workflows/worker"
    for name in ("config.yaml", "prompt.md"):
        (machine.root / role / name).unlink()
    answer = Layered(machine.root).call("start", "--set", "all", "--goal", "g", "--criterion", "c")
    assert answer.status == 1
    for name in ("config.yaml", "prompt.md"):
        # Once: what the refusal itself names is not listed again.
        assert answer.stderr.count(f"{role}/{name}:1:1: is missing") == 1


def test_whatever_is_given_is_not_said_back_without_end(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    long = "x" * 50_000
    for words in (
        ["dispatch", "--assignment", long, "a"], ["start", "--goal", "g", "--set", long],
        ["init", "--set", long], ["accept", long, "accepted", "--rationale", "r"],
        ["status", "--session", long],
    ):  # fmt: skip
        answer = Layered(machine.root).call(*words, "--json")
        assert answer.status == 1
        assert len(answer.stdout) < 3000, words
