"""A parent layer in a real repository, driven step by step: attempts, requests, children."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callboard.clock import FixedClock
from callboard.layers import assigned, beginning, dispatching, finishing, tree, unwinding
from callboard.layers.around import Around
from callboard.layers.disk import Disk, Effect, unobserved
from callboard.layers.dispatching import Dispatched
from callboard.layers.layers import Layers
from callboard.layers.records.attempt import AttemptResult
from callboard.layers.records.base import encode
from callboard.layers.records.session import Limits
from callboard.layers.records.state import State, Usage
from callboard.layers.requests import admitting, pending
from callboard.layers.tree import Layer
from tests.layers import trees
from tests.layers.contracts import ONE_WORKER

NOW = 1_769_854_500_000
PARENT_CRITERION = "The whole product is on sale"
CONTRACTS = {
    "above": """description: Plans, and asks for a child layer.
roles: [planner, dispatcher]
goal_control_roles: [planner]
blocker_roles: [planner, dispatcher]
request_roles: [dispatcher]
acceptance_roles: [planner]
evaluation_roles: [planner]
recovery: reap
""",
    "below": ONE_WORKER,
}
ROLES = {"above": ("planner", "dispatcher"), "below": ("worker",)}
CONFIG = """run_on_start: true
harness:
  command: ["true"]
responsibility: Do your part.
"""
SCOPE: dict[str, Any] = {
    "goal": "Write part.txt",
    "completion_criteria": ["part.txt says done"],
    "stop_criteria": [],
    "constraints": [],
    "deliverables": ["part.txt"],
    "required_evidence": ["eval receipt"],
}


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def item(item_id: str = "part", status: str = "selected", **fields: Any) -> str:
    """The text of one item of the ledger; its fields are JSON, which is YAML."""
    values = {"status": status, "scope": SCOPE, "workflow_set": "below", **fields}
    lines = "".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items())
    return f"## {item_id}: The {item_id} of it\n\n```yaml\n{lines}```\n"


def snapshot(request_id: str, item_id: str, session_id: str, **fields: Any) -> bytes:
    """A snapshot as an agent writes one by hand."""
    value = {
        "schema_version": 1, "request_id": request_id, "session_id": session_id,
        "work_item_id": item_id, "title": "a title", "workflow_set": "below",
        "supersedes_request_id": None, "child_scope": SCOPE, "decision_refs": [],
        "evidence_refs": [], "input_inventory": [],
    }  # fmt: skip
    return json.dumps(value | fields, indent=1).encode()


def write_sets(root: Path) -> None:
    """The two workflow sets."""
    for name, contract in CONTRACTS.items():
        folder = root / ".callboard" / "workflow_sets" / name
        for role in ROLES[name]:
            place = folder / "workflows" / role
            place.mkdir(parents=True)
            (place / "config.yaml").write_text(CONFIG)
            (place / "prompt.md").write_text("Read {assignment}.\n\n{goal}\n")
        (folder / "contract.yaml").write_text(contract)


@dataclass
class Chance:
    """Hex digits that differ from time to time, and are the same in each test."""

    count: int = 0

    def __call__(self, digits: int) -> str:
        self.count += 1
        return f"{self.count:0{digits}x}"[-digits:]


@dataclass
class Parent:
    """A layer with its surroundings. Everything of it is on disk; nothing is kept between calls."""

    root_path: Path
    place: str = ""
    chance: Chance = field(default_factory=Chance)

    def around(self, effect: Effect = unobserved) -> Around:
        return Around(
            disk=Disk(self.root_path, effect), clock=FixedClock(NOW), random=self.chance,
            git=None, environment={},
        )  # fmt: skip

    @property
    def disk(self) -> Disk:
        return Disk(self.root_path)

    @property
    def root(self) -> Layer:
        return tree.root(self.disk)

    @property
    def layer(self) -> Layer:
        return tree.read_layer(self.disk, self.place or self.root.place)

    @property
    def session_id(self) -> str:
        return self.layer.session.session_id

    @property
    def state(self) -> State:
        return tree.read_state(self.disk, self.layer)

    def path(self, *names: str) -> Path:
        return self.disk.path(self.layer.file(*names))

    # --- the parent's files -----------------------------------------------------------------

    def ledger(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.path("project_state", "work_items.md").write_bytes(data)

    def ledger_text(self) -> str:
        return self.path("project_state", "work_items.md").read_text(encoding="utf-8")

    def snapshot(self, request_id: str, item_id: str = "part", **fields: Any) -> bytes:
        data = snapshot(request_id, item_id, self.session_id, **fields)
        self.path("project_state", "dispatch_inputs", f"{request_id}.json").write_bytes(data)
        return data

    def request(
        self, request_id: str, attempt_id: str, item_id: str = "part",
        supersedes: str | None = None, **fields: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """A sound request, whose snapshot is there."""
        data = self.snapshot(request_id, item_id, supersedes_request_id=supersedes)
        ref = f"parent:/project_state/dispatch_inputs/{request_id}.json"
        value = {
            "schema_version": 2, "request_id": request_id, "workflow_set": "below",
            "origin": {
                "parent_attempt_id": attempt_id, "parent_work_item_id": item_id,
                "supersedes_request_id": supersedes,
            },
            "assignment": SCOPE,
            "inputs": [{"ref": ref, "sha256": sha(data)}],
        }  # fmt: skip
        return value | fields

    def put(self, name: str, value: Any) -> bytes:
        """A file of the pending folder."""
        data = value if isinstance(value, bytes) else json.dumps(value, indent=2).encode()
        self.path("child_requests", "pending", name).write_bytes(data)
        return data

    # --- what happens -----------------------------------------------------------------------

    def begin(self, role: str = "dispatcher") -> Path:
        """An attempt under way; gives the path of its assignment."""
        contract = tree.read_contract(self.disk, self.layer)
        frozen = next(one for one in contract.roles if one.name == role)
        state = beginning.begin(self.around(), self.layer, self.state, frozen)
        assert state.task is not None
        return self.path("attempts", state.task.attempt_id, "assignment.json")

    def result(self) -> AttemptResult:
        """What the runner of the attempt under way would publish."""
        task = self.state.task
        assert task is not None
        return AttemptResult(
            schema_version=1, attempt_id=task.attempt_id, classification="success", exit_code=0,
            signal=None, detail=None, duration_ms=1, stdout=None, stderr=None, survivors=(),
            usage=Usage(), git_before=None, git_after=None, ended_at_ms=NOW,
        )  # fmt: skip

    def end(self) -> str:
        """The attempt under way has returned, and was taken in."""
        result = self.result()
        place = self.layer.file("attempts", result.attempt_id, "result.json")
        self.disk.publish(place, encode(result))
        contract = tree.read_contract(self.disk, self.layer)
        finishing.finish(self.around(), self.layer, contract, self.state, result)
        return result.attempt_id

    def attempt(self, role: str = "dispatcher") -> str:
        """A whole attempt that did nothing."""
        self.begin(role)
        return self.end()

    def dispatch(
        self, assignment: Path, item_id: str = "part", effect: Effect = unobserved
    ) -> Dispatched:
        around = self.around(effect)
        return dispatching.dispatch(around, assigned.read(around, assignment), item_id)

    def decide(self, effect: Effect = unobserved) -> State:
        """What the coordinator does with requests, once the layer is ready."""
        around = self.around(effect)
        state = admitting.go_on(around, self.layer, self.state)
        return pending.decide(around, self.root, self.layer, state).state

    def end_child(self) -> str:
        """The live child has met its goal, and the parent goes on; gives the child's session."""
        state = self.state
        assert state.child is not None
        child = tree.child(self.disk, self.layer, state.child.session_id)
        ended = trees.change(self.disk, child, status="goal_met", stop_reason="goal_met")
        unwinding.unwind(self.around(), self.layer, state, child, ended)
        return child.session.session_id

    def child(self) -> Parent:
        """The live child, as a parent of its own."""
        state = self.state
        assert state.child is not None
        place = self.layer.file("children", state.child.session_id)
        return Parent(self.root_path, place, self.chance)

    # --- what there is ----------------------------------------------------------------------

    def children(self) -> list[str]:
        """The request ids of all children, sorted, by the folders there are."""
        found = self.path("children").glob("[!.]*/session.json")
        return sorted(json.loads(one.read_bytes())["request_id"] for one in found)

    def names(self, folder: str) -> list[str]:
        return sorted(one.name for one in self.path("child_requests", folder).iterdir())

    def rejections(self) -> list[dict[str, Any]]:
        """The receipts of all that was put away, by file name."""
        found = [
            json.loads(one.read_bytes())
            for one in self.path("child_requests", "rejected").glob("*.receipt.json")
        ]
        return sorted(found, key=lambda one: str(one["file_name"]))

    def codes(self) -> dict[str, str]:
        return {one["file_name"]: one["code"] for one in self.rejections()}

    def kept(self, receipt: dict[str, Any]) -> bytes:
        """The body beside the receipt of a rejection."""
        return self.path("child_requests", "rejected", receipt["kept_as"]).read_bytes()


def parent(folder: Path, *, limits: Limits | None = None) -> Parent:
    """A root layer in a new repository, with one selected item in its ledger."""
    root = folder / "repository"
    root.mkdir(parents=True)
    write_sets(root)
    made = Parent(root)
    Layers(made.around()).start(
        "Sell the product", workflow_set="above", limits=limits,
        completion_criteria=[PARENT_CRITERION],
    )  # fmt: skip
    made.ledger(item())
    return made
