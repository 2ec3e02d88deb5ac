"""A repository with two small workflow sets and a tree that is about to run, and its end state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callboard.layers.around import of_machine
from callboard.layers.layers import Layers
from tests.layers.contracts import ONE_WORKER
from tests.layers.whole import acting
from tests.repositories import repository

REPOSITORY_ROOT = Path(__file__).resolve().parents[3]

CONTRACTS = {
    "above": """description: Plans, and asks for a child layer.
roles: [planner, dispatcher]
goal_control_roles: [planner]
blocker_roles: [planner]
request_roles: [dispatcher]
acceptance_roles: [planner]
evaluation_roles: [planner]
recovery: reap
""",
    "below": ONE_WORKER,
}
ROLES = {
    "above": {"planner": "run_on_start: true", "dispatcher": "priority: 1\nmust_follow: planner"},
    "below": {"worker": "run_on_start: true"},
}


def _config(rules: str) -> str:
    command = json.dumps([sys.executable, str(Path(acting.__file__)), "agent", "{assignment}"])
    return f"""{rules}
harness:
  command: {command}
  timeout_s: 60
  grace_s: 2
  environment: [PATH, PYTHONPATH, EFFECTS, KILL_AT, EXECUTED]
responsibility: Do your part.
"""


def prepare(folder: Path) -> Played:
    """A repository in `folder` with a root layer that has not run yet."""
    root = repository(folder / "repository")
    sets = root / ".callboard" / "workflow_sets"
    for name, contract in CONTRACTS.items():
        for role, rules in ROLES[name].items():
            place = sets / name / "workflows" / role
            place.mkdir(parents=True)
            (place / "config.yaml").write_text(_config(rules))
            (place / "prompt.md").write_text("Read {assignment}, and do what it says.\n")
        (sets / name / "contract.yaml").write_text(contract)
    (folder / "executed").mkdir()
    played = Played(folder)
    played.layers().start(
        "Have the part done", workflow_set="above", completion_criteria=["part.txt says done"]
    )
    return played


@dataclass(frozen=True)
class Played:
    """One run in a folder of its own."""

    folder: Path

    @property
    def root(self) -> Path:
        """The repository."""
        return self.folder / "repository"

    @property
    def effects(self) -> list[str]:
        """What all processes did to files, a line each."""
        return (self.folder / "effects").read_text().splitlines()

    def copy(self, to: Path) -> Played:
        """The same, apart."""
        shutil.copytree(self.folder, to, symlinks=True)
        return Played(to)

    def layers(self) -> Layers:
        """The façade, as a looker has it."""
        return Layers(of_machine(self.root, dict(os.environ)))

    def run(self, *, kill_at: int = 0, count: bool = True) -> subprocess.CompletedProcess[str]:
        """Coordinate to the end, or until somebody is killed."""
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY_ROOT),
            "EXECUTED": str(self.folder / "executed"),
            "KILL_AT": str(kill_at),
        }
        if count:
            environment["EFFECTS"] = str(self.folder / "effects")
        return subprocess.run(
            [sys.executable, str(Path(acting.__file__)), "coordinator", str(self.root)],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def executions(self) -> Counter[str]:
        """How often each attempt was executed."""
        names = (one.name for one in (self.folder / "executed").iterdir())
        return Counter(name.rpartition(".")[0] for name in names)

    def end(self) -> dict[str, Any]:
        """What a run came to, without what differs from run to run: ids, times, tries."""
        layers = self.layers()
        return {
            "layers": [
                (
                    node.layer.session.depth,
                    node.layer.session.parent_work_item_id,
                    node.state.status,
                    node.state.phase,
                    node.goal.goal,
                )
                for node in layers.status()
            ],
            "requests": [
                ([made.work_item_id for made in one.accepted], len(one.pending))
                for one in layers.requests()
            ],
            "outcomes": [
                (outcome.work_item_id, outcome.status, judged and judged.decision)
                for outcome, judged in layers.outcomes()
            ],
            "part": (self.root / "part.txt").read_text(),
            # What a killed process did not finish may lie about; readers pass over it.
            "findings": [
                (one.code, one.place) for one in layers.check() if one.code != "temporary_file"
            ],
        }
