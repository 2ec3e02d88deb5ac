"""Layers in a folder, made step by step as the machine would leave them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callboard.clock import FixedClock
from callboard.layers import tree
from callboard.layers.around import Around, hex_digits
from callboard.layers.disk import Disk
from callboard.layers.records.base import encode
from callboard.layers.records.requests import ChildEntry
from callboard.layers.records.session import GoalContract, Limits, Session
from callboard.layers.records.state import Child, State, Task, Usage
from callboard.layers.records.workflow import (
    Caps,
    FrozenRole,
    Harness,
    RoleConfig,
    WorkflowContract,
)
from callboard.layers.tree import Layer

NOW = 1_769_854_500_000
GOAL = "Make the thing"
CONFIG = b"priority: 0\n"
PROMPT = b"Do it.\n"


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def around(root: Path) -> Around:
    return Around(
        disk=Disk(root), clock=FixedClock(NOW), random=hex_digits, git=None, environment={}
    )


def contract() -> WorkflowContract:
    config = RoleConfig(harness=Harness(command=("true",)), responsibility="plan")
    role = FrozenRole(
        name="planner", config=config, config_sha256=sha(CONFIG), prompt_sha256=sha(PROMPT)
    )
    return WorkflowContract(
        schema_version=1, workflow_set="planner_dispatcher", description="a set", roles=(role,),
        goal_control_roles=("planner",), blocker_roles=(), request_roles=("planner",),
        acceptance_roles=(), evaluation_roles=(), caps=Caps(), recovery="drain",
    )  # fmt: skip


def goal_contract(session_id: str) -> GoalContract:
    return GoalContract(
        schema_version=1, goal_id=f"goal.{session_id}", goal=GOAL, completion_criteria=("it runs",)
    )


def session(session_id: str, parent: Layer | None, limits: Limits | None = None) -> Session:
    return Session(
        schema_version=1,
        session_id=session_id,
        root_session_id=session_id if parent is None else parent.session.root_session_id,
        parent_session_id=None if parent is None else parent.session.session_id,
        depth=0 if parent is None else parent.session.depth + 1,
        workflow_set="planner_dispatcher",
        repository_id="repo1",
        request_id=None if parent is None else f"req.{session_id}",
        parent_work_item_id=None if parent is None else f"item.{session_id}",
        limits=(limits or Limits()) if parent is None else None,
        goal_sha256=sha(GOAL.encode()),
        goal_contract_sha256=sha(encode(goal_contract(session_id))),
        workflow_contract_sha256=sha(encode(contract())),
        created_at_ms=NOW,
    )


def add(
    disk: Disk, session_id: str, parent: Layer | None = None, *, limits: Limits | None = None,
    files: dict[str, bytes] | None = None,
) -> Layer:  # fmt: skip
    """A layer's folder, and nothing in the parent that speaks of it."""
    home = tree.SESSIONS if parent is None else parent.file("children")
    disk.make_folder(home)
    building = f"{home}/.{session_id}.building"
    kept = {"workflows/planner/config.yaml": CONFIG, "workflows/planner/prompt.md": PROMPT}
    tree.create(
        disk, building, session(session_id, parent, limits), GOAL, goal_contract(session_id),
        contract(), kept | (files or {}), NOW,
    )  # fmt: skip
    disk.move(building, f"{home}/{session_id}")
    return tree.read_layer(disk, f"{home}/{session_id}")


def start(disk: Disk, session_id: str = "R", *, limits: Limits | None = None) -> Layer:
    """A root layer in a repository that knows who it is."""
    disk.make_folder(tree.LAYERS)
    identity = {"created_at_ms": NOW, "repository_id": "repo1", "schema_version": 1}
    disk.publish(f"{tree.LAYERS}/repository.json", as_json(identity))
    disk.publish(f"{tree.LAYERS}/.gitignore", b"*\n")
    disk.make_folder(tree.TRACES)
    return add(disk, session_id, limits=limits)


def grow(disk: Disk, parent: Layer, session_id: str) -> Layer:
    """An accepted child, live, with everything that belongs to it on both sides."""
    request_id = f"req.{session_id}"
    snapshot = as_json(
        {
            "schema_version": 1, "request_id": request_id,
            "session_id": parent.session.session_id, "work_item_id": f"item.{session_id}",
            "title": "an item", "workflow_set": "planner_dispatcher",
            "supersedes_request_id": None, "child_scope": SCOPE, "decision_refs": [],
            "evidence_refs": [], "input_inventory": [],
        }
    )  # fmt: skip
    place = f"project_state/dispatch_inputs/{request_id}.json"
    disk.publish(parent.file(place), snapshot)
    body = as_json(
        {
            "schema_version": 2, "request_id": request_id, "workflow_set": "planner_dispatcher",
            "origin": {
                "parent_attempt_id": "0001_planner", "parent_work_item_id": f"item.{session_id}",
                "supersedes_request_id": None,
            },
            "assignment": SCOPE,
            "inputs": [{"ref": f"parent:/{place}", "sha256": sha(snapshot)}],
        }
    )  # fmt: skip
    receipt = {
        "schema_version": 1, "request_id": request_id, "body_sha256": sha(body),
        "file_name": "any.json", "child_session_id": session_id,
        "work_item_id": f"item.{session_id}", "attempt_id": "0001_planner", "decided_at_ms": NOW,
    }  # fmt: skip
    accepted = parent.file("child_requests", "accepted")
    disk.publish(f"{accepted}/{request_id}.json", body)
    disk.publish(f"{accepted}/{request_id}.receipt.json", as_json(receipt))
    files = {"inputs/accepted_request.json": body, f"inputs/artifacts/{request_id}.json": snapshot}
    layer = add(disk, session_id, parent, files=files)
    entry = ChildEntry(
        request_id=request_id, session_id=session_id, work_item_id=f"item.{session_id}",
        body_sha256=sha(body), status="running", stop_reason=None, outcome_ref=None,
        usage=Usage(), accepted_at_ms=NOW,
    )  # fmt: skip
    edit(disk, parent.file("children.json"), lambda d: d["children"].append(document(entry)))
    pointer = Child(session_id=session_id, request_id=request_id)
    change(disk, parent, child=pointer, children_made=tree.read_state(disk, parent).children_made)
    return layer


SCOPE: dict[str, Any] = {
    "goal": GOAL, "completion_criteria": ["it runs"], "stop_criteria": [], "constraints": [],
    "deliverables": [], "required_evidence": [],
}  # fmt: skip


def end(disk: Disk, parent: Layer, layer: Layer) -> None:
    """The live child of `parent` has met its goal, and the parent has taken that in."""
    session_id = layer.session.session_id
    change(disk, layer, status="goal_met", stop_reason="goal_met")
    outcome = {
        "schema_version": 1, "request_id": f"req.{session_id}", "session_id": session_id,
        "work_item_id": f"item.{session_id}", "goal_id": f"goal.{session_id}",
        "goal_contract_sha256": layer.session.goal_contract_sha256, "status": "goal_met",
        "stop_reason": "goal_met", "stop_detail": None, "usage": document(Usage()),
        "evidence": [], "ended_at_ms": NOW,
        "completeness": {
            "eval_receipt": False, "git_receipt": False, "delivery_receipt": False,
            "usage": True, "traces_sealed": True,
        },
    }  # fmt: skip
    disk.publish(parent.file("child_outcomes", f"req.{session_id}.json"), as_json(outcome))

    def ended(index: dict[str, Any]) -> None:
        entry = next(e for e in index["children"] if e["session_id"] == session_id)
        entry |= {
            "status": "goal_met", "stop_reason": "goal_met",
            "outcome_ref": f"session:/child_outcomes/req.{session_id}.json",
        }  # fmt: skip

    edit(disk, parent.file("children.json"), ended)
    change(disk, parent, child=None, rolled_sessions=(session_id,))


def attempt(disk: Disk, layer: Layer, iteration: int = 1, *, under_way: bool = False) -> str:
    """An attempt of the planner: finished, or the task that is under way."""
    attempt_id = f"{iteration:04d}_planner"
    place = layer.file("attempts", attempt_id)
    prompt = b"Read the assignment.\n"
    facts = layer.session
    root = disk.root / place
    paths = dict.fromkeys(
        "repository session_root project_state children_index children_root child_requests"
        " child_outcomes parent_acceptance control eval_checks eval_readiness eval_receipts"
        " git_receipts delivery_receipts inputs attempt_root trace_root".split(),
        str(root),
    )
    assignment = as_json(
        {
            "schema_version": 1,
            "identity": {
                "root_session_id": facts.root_session_id, "session_id": facts.session_id,
                "parent_session_id": facts.parent_session_id, "depth": facts.depth,
                "workflow_set": facts.workflow_set, "role": "planner", "iteration": iteration,
                "attempt_id": attempt_id, "request_id": facts.request_id, "work_item_id": None,
            },
            "goal": document(goal_contract(facts.session_id)),
            "inputs": [], "updates": [], "responsibility": "plan", "expected_outputs": [],
            "provenance": {
                "state_revision": 1, "config_sha256": sha(CONFIG), "prompt_sha256": sha(PROMPT),
                "rendered_prompt_sha256": sha(prompt),
                "contract_sha256": facts.workflow_contract_sha256,
                "goal_sha256": facts.goal_sha256,
                "goal_contract_sha256": facts.goal_contract_sha256, "git_head": None,
            },
            "paths": paths,
        }
    )  # fmt: skip
    disk.make_folder(f"{place}/workflow_snapshot")
    disk.publish(f"{place}/workflow_snapshot/config.yaml", CONFIG)
    disk.publish(f"{place}/workflow_snapshot/prompt.md", PROMPT)
    disk.publish(f"{place}/prompt.md", prompt)
    disk.publish(f"{place}/assignment.json", assignment)
    if under_way:
        task = Task(
            attempt_id=attempt_id, role="planner", iteration=iteration,
            assignment_sha256=sha(assignment),
        )  # fmt: skip
        change(disk, layer, task=task, iteration=iteration)
        return attempt_id
    result = as_json(
        {
            "schema_version": 1, "attempt_id": attempt_id, "classification": "success",
            "exit_code": 0, "signal": None, "detail": None, "duration_ms": 5, "stdout": None,
            "stderr": None, "survivors": [], "usage": document(Usage(attempts=1)),
            "git_before": None, "git_after": None, "ended_at_ms": NOW,
        }
    )  # fmt: skip
    disk.publish(f"{place}/result.json", result)
    finished = {
        "schema_version": 1, "attempt_id": attempt_id, "role": "planner",
        "classification": "success", "result_sha256": sha(result), "control": "none",
        "finished_at_ms": NOW,
    }  # fmt: skip
    disk.publish(f"{place}/finished.json", as_json(finished))
    change(disk, layer, iteration=iteration)
    return attempt_id


def change(disk: Disk, layer: Layer, **fields: Any) -> State:
    """The next state of a layer."""
    old = tree.read_state(disk, layer)
    values = {name: getattr(old, name) for name in old.__struct_fields__}
    state = State(**values | {"revision": old.revision + 1} | fields)
    tree.write_state(disk, layer, state)
    return state


def edit(disk: Disk, place: str, how: Callable[[dict[str, Any]], object]) -> None:
    """Another content of a JSON file, past everything that would judge it."""
    value = json.loads(disk.path(place).read_bytes())
    how(value)
    disk.path(place).write_bytes(as_json(value))


def document(record: Any) -> dict[str, Any]:
    found = json.loads(encode(record))
    assert isinstance(found, dict)
    return found


def as_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def everything(root: Path) -> dict[str, tuple[int, bytes]]:
    """Each file and folder below: its mode, and its bytes or where a link leads."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        data = b""
        if path.is_symlink():
            data = os.fsencode(os.readlink(path))
        elif path.is_file():
            data = path.read_bytes()
        found[str(path.relative_to(root))] = (path.lstat().st_mode, data)
    return found
