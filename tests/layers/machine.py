"""The machine on real files, driven step by step, with the test in the place of the harness.

Nothing runs between "began" and "finished": the test does what an agent would, by the same calls,
and leaves the result that a runner would have left.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from callboard.layers import tree
from callboard.layers.around import Around, of_machine
from callboard.layers.coordinating import Coordinator, Step
from callboard.layers.disk import Effect, unobserved
from callboard.layers.layers import Layers
from callboard.layers.records.attempt import AttemptResult, ResultClass
from callboard.layers.records.evaluation import GitSubject
from callboard.layers.records.session import Limits
from callboard.layers.records.state import State, Usage
from callboard.layers.sealing import put_record
from callboard.layers.tree import Layer
from tests.repositories import repository

RIGHTS = ("goal_control", "blocker", "request", "acceptance", "evaluation")
CHECK = """kind: command
check_id: done
title: part.txt says done
command: [grep, -q, done, part.txt]
"""


def write_set(
    root: Path,
    name: str = "all",
    *,
    roles: Mapping[str, str] | None = None,
    rights: Mapping[str, Sequence[str]] | None = None,
    caps: Mapping[str, int] | None = None,
    command: Sequence[str] = ("true",),
    recovery: str = "reap",
) -> None:
    """A workflow set in a repository; by default its one role, the worker, may do everything."""
    roles = roles or {"worker": ""}
    given = {f"{one}_roles": ["worker"] for one in RIGHTS} | {
        f"{one}_roles": list(names) for one, names in (rights or {}).items()
    }
    contract = {
        "description": "A set of a test.", "roles": list(roles), **given,
        "caps": dict(caps or {}), "recovery": recovery,
    }  # fmt: skip
    folder = root / ".callboard" / "workflow_sets" / name
    for role, rules in roles.items():
        place = folder / "workflows" / role
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.yaml").write_text(
            f"{rules}\nharness:\n  command: {json.dumps(list(command))}\n  timeout_s: 60\n"
            "  grace_s: 1\n  environment: [PATH, PYTHONPATH, NOTES]\n"
            "responsibility: Do your part.\n"
        )
        (place / "prompt.md").write_text("Read {assignment}, and do what it says.\n")
    (folder / "contract.yaml").write_text(json.dumps(contract))


@dataclass(frozen=True)
class Attempt:
    """The attempt that is under way."""

    layer: Layer
    assignment: Path
    document: dict[str, Any]

    @property
    def id(self) -> str:
        """Its id."""
        found = self.document["identity"]["attempt_id"]
        assert isinstance(found, str)
        return found

    def path(self, name: str) -> Path:
        """One of the paths that it was given."""
        return Path(self.document["paths"][name])


class Machine:
    """One tree in a repository of its own, and its coordinator."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: Limits | None = None,
        sets: Callable[[Path], None] = write_set,
        start: bool = True,
    ) -> None:
        self.root = folder / "repository"
        repository(self.root)
        sets(self.root)
        self.around = of_machine(self.root, dict(os.environ))
        self.layers = Layers(self.around)
        if start:
            self.layers.start(
                "Have it done", workflow_set="all", limits=limits, completion_criteria=["done"]
            )

    def step(self, effect: Effect = unobserved, around: Around | None = None) -> Step:
        """One step of a coordinator that knows nothing of the one before."""
        here = around or of_machine(self.root, dict(os.environ), effect=effect)
        return Coordinator(here, tree.root(here.disk), Event()).step()

    def run(self) -> Step:
        """Step until the tree is over, or an attempt waits for its harness."""
        while (step := self.step()).did not in ("over", "began"):
            pass
        return step

    def begin(self) -> Attempt:
        """Step until an attempt has begun."""
        step = self.run()
        assert step.did == "began", step
        return self.attempt()

    def attempt(self) -> Attempt:
        """The attempt that has begun."""
        layer, state = self.deepest()
        assert state.task is not None
        place = self.around.disk.path(layer.file("attempts", state.task.attempt_id))
        document = json.loads((place / "assignment.json").read_bytes())
        return Attempt(layer, place / "assignment.json", document)

    def leave_result(
        self,
        classification: ResultClass = "success",
        usage: Usage | None = None,
        subjects: tuple[GitSubject, GitSubject] | None = None,
    ) -> None:
        """What a runner leaves of the attempt that has begun."""
        attempt = self.attempt()
        result = AttemptResult(
            schema_version=1,
            attempt_id=attempt.id,
            classification=classification,
            exit_code=0 if classification == "success" else 1,
            signal=None,
            detail=None,
            duration_ms=5,
            stdout=None,
            stderr=None,
            survivors=(),
            usage=usage or Usage(attempts=1, duration_ms=5),
            git_before=subjects[0] if subjects else None,
            git_after=subjects[1] if subjects else None,
            ended_at_ms=1_769_854_500_000,
        )
        put_record(
            self.around.disk, attempt.layer.file("attempts", attempt.id, "result.json"), result
        )

    def end(self, classification: ResultClass = "success", usage: Usage | None = None) -> State:
        """The attempt is over, and taken in; the state of its layer then."""
        layer = self.attempt().layer
        self.leave_result(classification, usage)
        assert self.step().did == "finished"
        return self.state(layer)

    def deepest(self) -> tuple[Layer, State]:
        """The deepest layer with its state."""
        return tree.chain(self.around.disk, tree.root(self.around.disk))[-1]

    def state(self, layer: Layer) -> State:
        """Where a layer stands."""
        return tree.read_state(self.around.disk, layer)

    @property
    def top(self) -> Layer:
        """The root layer."""
        return tree.root(self.around.disk)

    # --- what agents do -----------------------------------------------------------------------

    def ask(
        self,
        attempt: Attempt,
        item: str = "part",
        *,
        workflow_set: str = "all",
        supersedes: str | None = None,
    ) -> str:
        """Select an item in the ledger, and ask for a child layer; the id of the request."""
        text = ITEM.format(item=item, workflow_set=workflow_set, supersedes=supersedes or "null")
        (attempt.path("project_state") / "work_items.md").write_text(text)
        return self.layers.dispatch(attempt.assignment, item).request_id

    def descend(self, item: str = "part", **other: Any) -> Attempt:
        """Let an attempt ask for a child, and begin the first attempt of that."""
        self.ask(self.begin(), item, **other)
        self.end()
        return self.begin()

    def pass_checks(self, attempt: Attempt) -> str:
        """Do the work and run its check; the reference of the receipt."""
        (self.root / "part.txt").write_text("done\n")
        (attempt.path("eval_checks") / "done.yaml").write_text(CHECK)
        receipt = self.layers.evaluate(attempt.assignment)
        assert receipt.verdict == "pass", receipt
        return f"session:/eval_receipts/{receipt.receipt_id}.json"

    def meet_goal(self, attempt: Attempt) -> None:
        """Reach the goal, and say so."""
        ref = self.pass_checks(attempt)
        self.layers.control(attempt.assignment, "goal_met", eval_receipt_ref=ref, summary="It is.")


ITEM = """# What is to be done

## {item}: Write the part

```yaml
status: selected
scope:
  goal: Write {item}
  completion_criteria: [it is written]
  stop_criteria: []
  constraints: []
  deliverables: [part.txt]
  required_evidence: [eval receipt]
workflow_set: {workflow_set}
supersedes: {supersedes}
```
"""
