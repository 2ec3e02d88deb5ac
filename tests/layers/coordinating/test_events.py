"""What is told of a tree's life: each thing once, in its layer, and never a second time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard.layers.records.events import (
    AttemptBegan,
    AttemptEnded,
    ChildEnded,
    ChildJudged,
    ChildMade,
    LayerEnded,
    RequestRefused,
)
from callboard.layers.tree import Layer
from tests.layers.coordinating.test_levels import killed_at_each_effect
from tests.layers.machine import Machine

ANY = (
    AttemptBegan | AttemptEnded | ChildEnded | ChildJudged | ChildMade | LayerEnded | RequestRefused
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def told(machine: Machine, layer: Layer) -> list[dict[str, Any]]:
    """All events of a layer, each of which is one that is described."""
    found = []
    path = machine.around.disk.path(layer.file("events.jsonl"))
    for line in path.read_bytes().splitlines() if path.exists() else []:
        msgspec.json.decode(line, type=ANY)
        event = json.loads(line)
        assert event.pop("session_id") == layer.session.session_id
        assert event.pop("at_ms") > 0
        found.append(event)
    return found


def test_a_parent_and_its_child_tell_all_that_they_live_through(machine: Machine) -> None:
    attempt = machine.begin()
    (attempt.path("child_requests") / "junk.json").write_text("{")
    request = machine.ask(attempt)
    machine.end()
    child = machine.begin()
    session = child.layer.session.session_id
    machine.meet_goal(child)
    machine.end()
    judge = machine.begin()
    for _again in range(2):
        machine.layers.accept(
            request, "accepted", "it is there", [f"session:/child_outcomes/{request}.json"],
            assignment=judge.assignment,
        )  # fmt: skip
    machine.end()
    first = {"attempt_id": "0001_worker", "role": "worker"}
    second = {"attempt_id": "0002_worker", "role": "worker"}
    made = {"request_id": request, "child_session_id": session}
    good = {"classification": "success", "control": "none"}
    assert told(machine, machine.top) == [
        {"kind": "attempt_began", **first},
        {"kind": "attempt_ended", **first, **good},
        {"kind": "request_refused", "file_name": "junk.json", "request_id": None,
         "code": "record_invalid"},
        {"kind": "child_made", **made},
        {"kind": "child_ended", **made, "status": "goal_met"},
        {"kind": "attempt_began", **second},
        {"kind": "child_judged", "request_id": request, "decision": "accepted",
         "decided_by": "0002_worker"},
        {"kind": "attempt_ended", **second, **good},
    ]  # fmt: skip
    assert told(machine, child.layer) == [
        {"kind": "attempt_began", **first},
        {"kind": "attempt_ended", **first, **good, "control": "goal_met"},
        {"kind": "layer_ended", "status": "goal_met", "stop_reason": "goal_met"},
    ]


def test_an_end_by_the_machine_is_told_with_its_reason(machine: Machine) -> None:
    machine.layers.stop("enough")
    machine.run()
    assert told(machine, machine.top) == [
        {"kind": "layer_ended", "status": "stopped", "stop_reason": "user_stop"}
    ]


def test_killed_at_any_step_nothing_is_told_twice(machine: Machine) -> None:
    attempt = machine.begin()
    (attempt.path("child_requests") / "junk.json").write_text("{")
    machine.ask(attempt)
    machine.end()
    for tried in killed_at_each_effect(machine):
        machine.begin()
        kinds = [one["kind"] for one in told(machine, machine.top)]
        assert len(kinds) == len(set(kinds)), tried
        # A crash keeps out at most what it came right before the telling of.
        assert {"attempt_began", "attempt_ended"} <= set(kinds), tried


def test_a_step_says_how_many_requests_it_refused(machine: Machine) -> None:
    attempt = machine.begin()
    for name in ("a", "b"):
        (attempt.path("child_requests") / f"{name}.json").write_text(name)
    machine.end()
    step = machine.step()
    assert (step.did, step.detail, step.refused) == ("began", "0002_worker", 2)
    machine.end()
    assert machine.step().refused == 0
