"""The agent without a model: what it leaves when it plays a role that needs files and Git alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard.layers import prompting
from callboard.layers.records.assignment import Assignment, AttemptIdentity, Paths
from callboard.layers.records.base import Record, Ref
from callboard.layers.records.evaluation import CommandCheck
from callboard.layers.records.requests import ChildScope
from callboard.layers.records.session import GoalContract
from callboard.layers.yaml_records.faults import Faults
from callboard.layers.yaml_records.typed import read_yaml
from tests.ambient import ROOT
from tests.layers.contracts import PROVENANCE

EXAMPLE = ROOT / "examples" / "layers"
STORY: dict[str, Any] = json.loads((EXAMPLE / "story.json").read_bytes())
GREET, LEAVE = STORY["items"]


class Item(Record, frozen=True, kw_only=True):
    """The fields of a work item, as the ledger has them."""

    status: str
    scope: ChildScope
    workflow_set: str
    decisions: tuple[Ref, ...]
    evidence: tuple[Ref, ...]
    inputs: tuple[Ref, ...]
    supersedes: str | None
    request_id: str | None
    request_path: str | None
    outcome_ref: str | None


class World:
    """A repository, and a layer's folder beside it, in which roles are played."""

    def __init__(self, root: Path) -> None:
        self.layer = root / "layer"
        self.layer.mkdir()
        self.repository = root / "greeter"
        subprocess.run(["cp", "-R", str(EXAMPLE / "repository"), str(self.repository)], check=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        author = ("-c", "user.name=Test", "-c", "user.email=test@callboard.invalid")
        self.git(*author, "commit", "--quiet", "-m", "Begin")

    def git(self, *words: str) -> str:
        argv = ["git", "-C", str(self.repository), *words]
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def play(self, role: str, number: int, goal: dict[str, Any], depth: int = 1) -> None:
        """Let the agent play one attempt, as a harness starts it."""
        paths = {name: str(self.layer / name) for name in Paths.__struct_fields__}
        attempt = f"{number:04d}_{role}"
        assignment = Assignment(
            schema_version=1,
            identity=AttemptIdentity(
                root_session_id="R",
                session_id="S",
                parent_session_id="R" if depth else None,
                depth=depth,
                workflow_set="tried",
                role=role,
                iteration=number,
                attempt_id=attempt,
            ),
            goal=msgspec.convert({"schema_version": 1, "goal_id": "g", **goal}, GoalContract),
            inputs=(),
            updates=(),
            responsibility="plays",
            expected_outputs=(),
            provenance=PROVENANCE,
            paths=Paths(**paths | {"repository": str(self.repository)}),
        )
        file = self.layer / f"{attempt}.json"
        file.write_bytes(msgspec.json.encode(assignment))
        subprocess.run(
            [sys.executable, str(EXAMPLE / "agent.py"), str(EXAMPLE / "story.json")],
            input=prompting.render("Play {role}.", str(file), assignment),
            text=True,
            check=True,
            cwd="/",
            env=dict(os.environ),
            stdout=subprocess.DEVNULL,
        )

    def items(self) -> dict[str, Item]:
        text = (self.layer / "project_state" / "work_items.md").read_text()
        found = re.findall(r"^## (\S+): [^\n]+\n\n```yaml\n(.*?)^```$", text, re.M | re.S)
        blocks = {name: read_yaml(block.encode(), Item, name, Faults()) for name, block in found}
        return {name: read[0] for name, read in blocks.items() if read is not None}

    def receipt(self, folder: str) -> Any:
        return json.loads((self.layer / folder / "0002_inner.json").read_bytes())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_planner_writes_the_ledger_and_selects_the_first_item(world: World) -> None:
    world.play("planner", 1, STORY["goal"], depth=0)
    found = world.items()
    assert {name: item.status for name, item in found.items()} == {
        "greet": "selected",
        "leave": "open",
    }
    assert found["greet"].scope == msgspec.convert(GREET["scope"], ChildScope)
    assert found["greet"].decisions == ("session:/project_state/decisions/0001_planner.md",)
    assert (world.layer / "project_state" / "decisions" / "0001_planner.md").is_file()
    before = (world.layer / "project_state" / "work_items.md").read_bytes()
    world.play("planner", 2, STORY["goal"], depth=0)
    assert (world.layer / "project_state" / "work_items.md").read_bytes() == before


def test_the_first_delivery_of_greeting_misses_its_page(world: World) -> None:
    world.play("outer", 1, GREET["scope"])
    base = world.git("rev-parse", "HEAD")
    world.play("inner", 2, GREET["scope"])
    assert world.git("status", "--porcelain") == ""
    assert world.git("log", "--format=%s", f"{base}..HEAD") == "People are greeted by name"
    git = world.receipt("git_receipts")
    assert (git["branch"], git["base"], git["head"]) == (
        "main",
        base,
        world.git("rev-parse", "HEAD"),
    )
    made = (world.repository / "greeter" / "greet.py").read_bytes()
    assert world.receipt("delivery_receipts")["deliverables"] == [
        {
            "path": "greeter/greet.py",
            "sha256": f"sha256:{hashlib.sha256(made).hexdigest()}",
            "criterion": "greet('Ada') is 'Hello, Ada!'",
        }
    ]


def test_a_rework_delivers_what_was_missing(world: World) -> None:
    scope = GREET["scope"] | {"constraints": ["Deliver what is missing: docs/greet.md"]}
    world.play("outer", 1, scope)
    world.play("inner", 2, scope)
    assert world.git("show", "--format=", "--name-only") == "docs/greet.md"


def test_the_checks_of_a_child_name_its_criteria_and_pass_when_it_has_delivered(
    world: World,
) -> None:
    world.play("outer", 1, LEAVE["scope"])
    world.play("inner", 2, LEAVE["scope"])
    world.play("eval_reviewer", 3, LEAVE["scope"])
    (file,) = (world.layer / "eval_checks").iterdir()
    read = read_yaml(file.read_bytes(), CommandCheck, file.name, Faults())
    assert read is not None
    assert read[0].criteria == tuple(LEAVE["scope"]["completion_criteria"])
    assert subprocess.run(read[0].command, cwd=world.repository, check=False).returncode == 0
    (note,) = (world.layer / "eval_readiness").iterdir()
    assert note.name == "0003_eval_reviewer.md"
    assert note.read_text().startswith("ready: yes\n")


def test_the_parent_is_not_ready_while_items_are_open_and_nothing_is_run(world: World) -> None:
    world.play("planner", 1, STORY["goal"], depth=0)
    world.play("eval_reviewer", 2, STORY["goal"], depth=0)
    world.play("eval_runner", 3, STORY["goal"], depth=0)
    (note,) = (world.layer / "eval_readiness").iterdir()
    assert note.read_text().startswith("ready: no\n")
    checked = {path.name for path in (world.layer / "eval_checks").iterdir()}
    assert checked == {"check-1.yaml", "check-2.yaml"}
    assert not (world.layer / "eval_receipts").exists()
    assert not (world.layer / "control").exists()
