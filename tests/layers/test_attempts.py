"""An attempt is frozen whole, taken up as it was, and nothing of it may change unnoticed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import msgspec
import pytest

from callboard.layers import attempts, tree
from callboard.layers.disk import Disk
from callboard.layers.records.state import Task
from callboard.layers.records.workflow import Harness, WorkflowContract
from callboard.layers.tree import Layer
from tests.board.building import refused
from tests.layers import attempting, trees
from tests.layers.killing import Killed, killing

ID = "0001_planner"


@pytest.fixture
def made() -> WorkflowContract:
    return attempting.contract(Harness(command=("true",)))


@pytest.fixture
def layer(disk: Disk, made: WorkflowContract) -> Layer:
    return attempting.layer_with(disk, made)


def task(frozen: attempts.Frozen, **other: object) -> Task:
    values = {
        "attempt_id": frozen.attempt_id, "role": "planner", "iteration": 1,
        "assignment_sha256": frozen.assignment_sha256, **other,
    }  # fmt: skip
    return msgspec.convert(values, Task)


def test_everything_an_attempt_is_given_is_in_its_folder(
    disk: Disk, layer: Layer, made: WorkflowContract
) -> None:
    frozen = attempting.freeze(
        disk, layer, made, updates=("go on",), git_head="a" * 40, work_item_id="item-1"
    )
    folder = disk.root / ".callboard/layers/sessions/R/attempts/0001_planner"
    path = folder / "assignment.json"
    data = path.read_bytes()
    assert frozen.assignment_sha256 == "sha256:" + hashlib.sha256(data).hexdigest()
    assert (folder / "prompt.md").read_text() == f"Do it.\n{path}\nMake the thing\n"
    assert (folder / "workflow_snapshot/config.yaml").read_bytes() == b"priority: 0\n"
    assert (folder / "workflow_snapshot/prompt.md").read_bytes() == b"Do it.\n"
    found = json.loads(data)
    session = str(folder.parents[1])
    assert found["identity"] == {
        "root_session_id": "R", "session_id": "R", "parent_session_id": None, "depth": 0,
        "workflow_set": "planner_dispatcher", "role": "planner", "iteration": 1,
        "attempt_id": ID, "request_id": None, "work_item_id": "item-1",
    }  # fmt: skip
    assert found["paths"] == {
        "repository": str(disk.root),
        "session_root": session,
        "project_state": f"{session}/project_state",
        "children_index": f"{session}/children.json",
        "children_root": f"{session}/children",
        "child_requests": f"{session}/child_requests/pending",
        "child_outcomes": f"{session}/child_outcomes",
        "parent_acceptance": f"{session}/parent_acceptance",
        "control": f"{session}/control.json",
        "eval_checks": f"{session}/eval_checks",
        "eval_readiness": f"{session}/eval_readiness",
        "eval_receipts": f"{session}/eval_receipts",
        "git_receipts": f"{session}/git_receipts",
        "delivery_receipts": f"{session}/delivery_receipts",
        "inputs": f"{session}/inputs",
        "attempt_root": str(folder),
        "trace_root": f"{disk.root}/.callboard/layers/traces/R/sessions/R/attempts/{ID}",
    }
    assert found["updates"] == ["go on"]
    assert found["responsibility"] == "plan"
    assert found["expected_outputs"] == ["a plan"]
    assert found["goal"]["goal"] == "Make the thing"
    rendered = hashlib.sha256((folder / "prompt.md").read_bytes()).hexdigest()
    assert found["provenance"]["rendered_prompt_sha256"] == f"sha256:{rendered}"
    assert found["provenance"]["state_revision"] == 1
    assert found["provenance"]["git_head"] == "a" * 40
    assert attempts.read_assignment(disk, layer, task(frozen, work_item_id="item-1")) == (
        frozen.assignment
    )


def test_an_attempt_frozen_from_the_same_state_is_taken_up_as_it_is(
    disk: Disk, layer: Layer, made: WorkflowContract
) -> None:
    frozen = attempting.freeze(disk, layer, made, updates=("one",))
    again = attempting.freeze(disk, layer, made, updates=("one", "two"), git_head="b" * 40)
    assert again == frozen
    assert again.assignment.updates == ("one",)


def test_what_a_killed_freeze_left_is_built_anew(
    disk: Disk, made: WorkflowContract, layer: Layer
) -> None:
    steps: list[str] = []
    attempting.freeze(Disk(disk.root, lambda step, _: steps.append(step)), layer, made)
    disk.remove_tree(attempts.place_of(layer, ID))
    for last in range(1, len(steps) + 1):
        with pytest.raises(Killed):
            attempting.freeze(Disk(disk.root, killing(last)), layer, made)
        whole = disk.kind(attempts.place_of(layer, ID)) is not None
        assert whole == (last == len(steps))
        frozen = attempting.freeze(disk, layer, made)
        attempts.verify(disk, layer, frozen.assignment)
        assert disk.names(layer.file("attempts")) == [ID]
        disk.remove_tree(attempts.place_of(layer, ID))


def test_an_attempt_of_another_state_is_not_taken_up(
    disk: Disk, layer: Layer, made: WorkflowContract
) -> None:
    attempting.freeze(disk, layer, made)
    trees.change(disk, layer, iteration=0)
    assert refused(attempting.freeze, disk, layer, made).code == "attempt_taken"


@pytest.mark.parametrize("name", ["process.json", "result.json"])
def test_an_attempt_that_began_is_not_taken_up(
    disk: Disk, layer: Layer, made: WorkflowContract, name: str
) -> None:
    attempting.freeze(disk, layer, made)
    disk.publish(f"{attempts.place_of(layer, ID)}/{name}", b"{}")
    assert refused(attempting.freeze, disk, layer, made).code == "attempt_taken"


@pytest.mark.parametrize(
    "name",
    [
        "assignment.json",
        "prompt.md",
        "workflow_snapshot/config.yaml",
        "workflow_snapshot/prompt.md",
    ],
)
@pytest.mark.parametrize("how", ["edited", "missing", "link", "folder", "huge", "empty"])
def test_every_edit_is_noticed(
    disk: Disk, layer: Layer, made: WorkflowContract, name: str, how: str
) -> None:
    frozen = attempting.freeze(disk, layer, made)
    path = disk.path(f"{attempts.place_of(layer, ID)}/{name}")
    data = path.read_bytes()
    path.unlink()
    if how == "edited":
        path.write_bytes(data + b" ")
    elif how == "link":
        (disk.root / "elsewhere").write_bytes(data)
        path.symlink_to(disk.root / "elsewhere")
    elif how == "folder":
        path.mkdir()
    elif how == "huge":
        with path.open("wb") as stream:
            stream.truncate(2**40)
    elif how == "empty":
        path.touch()

    def check() -> None:
        attempts.verify(disk, layer, attempts.read_assignment(disk, layer, task(frozen)))

    error = refused(check)
    assert (error.code, error.details["file"]) == ("attempt_changed", name)
    if name == "assignment.json" and how == "edited":
        # Another layout of the same record: only its digest, which the state has, tells.
        return
    # An attempt of that id can be frozen once it is out of the way, as the hint says.
    taken = refused(attempting.freeze, disk, layer, made)
    assert taken.code == "attempt_taken"
    assert "move the folder away" in taken.hint


def test_an_assignment_of_another_task_is_refused(
    disk: Disk, layer: Layer, made: WorkflowContract
) -> None:
    frozen = attempting.freeze(disk, layer, made)
    for other in ({"role": "inner"}, {"iteration": 2}, {"work_item_id": "x"}):
        error = refused(attempts.read_assignment, disk, layer, task(frozen, **other))
        assert error.code == "attempt_changed"


def test_an_attempt_of_a_repository_that_moved_is_refused(
    disk: Disk, layer: Layer, made: WorkflowContract, tmp_path: Path
) -> None:
    frozen = attempting.freeze(disk, layer, made)
    moved = Disk(disk.root.rename(tmp_path / "moved"))
    there = tree.read_layer(moved, layer.place)
    assert refused(attempts.verify, moved, there, frozen.assignment).code == "attempt_changed"


def test_bytes_that_the_contract_does_not_know_are_refused(
    disk: Disk, layer: Layer, made: WorkflowContract
) -> None:
    for other in ({"config": b"priority: 1\n"}, {"prompt": b"Do more.\n"}):
        assert refused(attempting.freeze, disk, layer, made, **other).code == "layer_corrupt"
    assert disk.names(layer.file("attempts")) == []


def test_what_nobody_could_read_is_not_frozen(
    disk: Disk, layer: Layer, made: WorkflowContract
) -> None:
    for other, code in (
        ({"updates": ("x",) * 501}, "record_invalid"),
        ({"updates": ("x" * 262_144,) * 40}, "resource_limit"),
        ({"render": lambda *_: "x" * (16 * 2**20 + 1)}, "resource_limit"),
    ):
        assert refused(attempting.freeze, disk, layer, made, **other).code == code
    assert disk.names(layer.file("attempts")) == []
