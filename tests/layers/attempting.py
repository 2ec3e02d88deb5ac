"""Attempts in a root layer whose one role is carried out by a command of the test's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from callboard.clock import SystemClock
from callboard.git import Git
from callboard.layers import attempts, tree
from callboard.layers.around import Around, hex_digits
from callboard.layers.attempts import Frozen
from callboard.layers.disk import Disk
from callboard.layers.records.assignment import Assignment
from callboard.layers.records.base import encode
from callboard.layers.records.state import Task
from callboard.layers.records.workflow import FrozenRole, Harness, RoleConfig, WorkflowContract
from callboard.layers.tree import Layer
from tests.layers import trees

ROOT = Path(__file__).resolve().parents[2]


def contract(harness: Harness, recovery: Literal["drain", "reap"] = "reap") -> WorkflowContract:
    config = RoleConfig(harness=harness, responsibility="plan", expected_outputs=("a plan",))
    role = FrozenRole(
        name="planner",
        config=config,
        config_sha256=trees.sha(trees.CONFIG),
        prompt_sha256=trees.sha(trees.PROMPT),
    )
    return msgspec.structs.replace(trees.contract(), roles=(role,), recovery=recovery)


def layer_with(disk: Disk, made: WorkflowContract, session_id: str = "R") -> Layer:
    """A root layer that works by the contract `made`."""
    session = msgspec.structs.replace(
        trees.session(session_id, None), workflow_contract_sha256=trees.sha(encode(made))
    )
    building = f"{tree.SESSIONS}/.{session_id}.building"
    disk.make_folder(tree.SESSIONS)
    tree.create(
        disk, building, session, trees.GOAL, trees.goal_contract(session_id), made, {}, trees.NOW
    )  # fmt: skip
    disk.move(building, f"{tree.SESSIONS}/{session_id}")
    return tree.read_layer(disk, f"{tree.SESSIONS}/{session_id}")


def rendered(template: str, path: str, assignment: Assignment) -> str:
    return f"{template}{path}\n{assignment.goal.goal}\n"


def freeze(disk: Disk, layer: Layer, made: WorkflowContract, **other: Any) -> Frozen:
    values: dict[str, Any] = {
        "config": trees.CONFIG, "prompt": trees.PROMPT, "iteration": 1,
        "state": tree.read_state(disk, layer), "goal": tree.read_goal(disk, layer),
        "updates": (), "inputs": (), "git_head": None, "request_id": None, "work_item_id": None,
    }  # fmt: skip
    render = other.pop("render", rendered)
    given = attempts.Given(**values | other)
    return attempts.freeze(disk, layer, made.roles[0], given, render)


class Attempt:
    """One attempt of the planner, frozen and the task of its layer."""

    def __init__(
        self,
        root: Path,
        *command: str,
        recovery: Literal["drain", "reap"] = "reap",
        prompt: str | None = None,
        **harness: Any,
    ) -> None:
        self.disk = Disk(root)
        settings: dict[str, Any] = {"timeout_s": 60, "grace_s": 1}
        self.contract = contract(Harness(command=command, **settings | harness), recovery)
        self.layer = layer_with(self.disk, self.contract)
        render = rendered if prompt is None else lambda *_: prompt
        self.frozen = freeze(self.disk, self.layer, self.contract, render=render)
        self.task = Task(
            attempt_id=self.frozen.attempt_id, role="planner", iteration=1,
            assignment_sha256=self.frozen.assignment_sha256,
        )  # fmt: skip
        trees.change(self.disk, self.layer, task=self.task, iteration=1)
        self.place = attempts.place_of(self.layer, self.task.attempt_id)
        self.trace = attempts.trace_of(self.layer, self.task.attempt_id)

    def path(self, name: str) -> Path:
        """A file of the attempt's folder."""
        return self.disk.path(f"{self.place}/{name}")

    def traced(self, name: str) -> Path:
        """A file of the attempt's trace."""
        return self.disk.path(f"{self.trace}/{name}")

    def around(
        self, *, git: Git | None = None, runner: tuple[str, ...] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Around:  # fmt: skip
        return Around(
            disk=self.disk, clock=SystemClock(), random=hex_digits,
            git=git, environment=os.environ if environment is None else environment,
            runner=runner or (sys.executable, "-m", "callboard.layers.running"),
        )  # fmt: skip
