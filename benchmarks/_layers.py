"""A tree of layers of the size that the benchmark of the layers speaks of."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from msgspec import structs

from callboard.layers import tree
from callboard.layers.around import Around, of_machine
from callboard.layers.layers import Layers
from callboard.layers.records.attempt import AttemptProcess, AttemptResult
from callboard.layers.records.base import digest, encode
from callboard.layers.records.state import Usage
from callboard.layers.runners import recorded
from callboard.layers.sealing import put_record
from callboard.layers.tree import Layer
from callboard.processes.identity import current

_WIDTH = 30


def make_tree(root: Path, sessions: int) -> Around:
    """A repository without Git, with one root and layers in branches below it."""
    folder = root / ".callboard" / "workflow_sets" / "bench"
    role = folder / "workflows" / "worker"
    role.mkdir(parents=True)
    (role / "config.yaml").write_text(
        'harness:\n  command: ["true"]\nresponsibility: Do your part.\n'
    )
    (role / "prompt.md").write_text("Read {assignment}.\n")
    rights = ("goal_control", "blocker", "request", "acceptance", "evaluation")
    given = {f"{one}_roles": ["worker"] for one in rights}
    words = {"description": "A set.", "roles": ["worker"], **given, "recovery": "reap"}
    (folder / "contract.yaml").write_text(json.dumps(words))
    around = of_machine(root, dict(os.environ))
    goal = "Reach it, step by step. " * 20
    Layers(around).start(goal, workflow_set="bench", completion_criteria=["it is reached"])
    top = tree.root(around.disk)
    above = [top]
    for number in range(1, sessions):
        made = _add(around, above[-1] if number % _WIDTH else top, number)
        if number % _WIDTH == 0:
            above.append(made)
    return around


def _add(around: Around, parent: Layer, number: int) -> Layer:
    """One more layer: a copy of its parent's folder with an identity of its own.

    Nothing is made durable, which would take minutes and is not what is measured.
    """
    disk, session_id = around.disk, f"session_{number:06d}"
    goal = structs.replace(tree.read_goal(disk, parent), goal_id=f"goal_{session_id}")
    session = structs.replace(
        parent.session, session_id=session_id, parent_session_id=parent.session.session_id,
        depth=parent.session.depth + 1, request_id=f"request_{number}",
        parent_work_item_id=f"item_{number}", limits=None,
        goal_contract_sha256=digest(encode(goal)),
    )  # fmt: skip
    state = structs.replace(tree.read_state(disk, parent), session_id=session_id)
    place = parent.file("children", session_id)
    shutil.copytree(
        disk.path(parent.place), disk.path(place), ignore=shutil.ignore_patterns("session_*")
    )
    for name, record in (("session", session), ("goal_contract", goal), ("state", state)):
        disk.path(f"{place}/{name}.json").write_bytes(encode(record))
    return tree.read_layer(disk, place)


def leave_result(around: Around, layer: Layer, attempt_id: str) -> None:
    """What a runner leaves of an attempt that ended well: its record, and the result."""
    dead = structs.replace(recorded(current()), started=1)
    process = AttemptProcess(
        schema_version=1, attempt_id=attempt_id, run_mark="run_bench", runner=dead, leader=dead,
        started_at_ms=0,
    )  # fmt: skip
    result = AttemptResult(
        schema_version=1, attempt_id=attempt_id, classification="success", exit_code=0,
        signal=None, detail=None, duration_ms=1, stdout=None, stderr=None, survivors=(),
        usage=Usage(attempts=1), git_before=None, git_after=None, ended_at_ms=0,
    )  # fmt: skip
    for name, record in (("process", process), ("result", result)):
        put_record(around.disk, layer.file("attempts", attempt_id, f"{name}.json"), record)
