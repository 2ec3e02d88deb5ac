"""Layers below layers: how they begin, end, and are taken in, whatever is killed on the way."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.layers import tree
from callboard.layers.records.session import Limits
from callboard.layers.records.state import Usage
from tests.layers import trees
from tests.layers.killing import Killed, killing, killing_where
from tests.layers.machine import Attempt, Machine, write_set


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def killed_at_each_effect(machine: Machine) -> Iterator[int]:
    """Kill the next step after each of its effects in turn, from the same state each time."""
    folder = machine.root / ".callboard" / "layers"
    saved = machine.root.parent / "saved"
    shutil.copytree(folder, saved)
    for last in itertools.count(1):
        try:
            machine.step(killing(last))
        except Killed:
            yield last
        else:
            return
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)


def phases(machine: Machine) -> list[tuple[int, str]]:
    return [(one.layer.session.depth, one.state.phase) for one in machine.layers.status()]


def outcomes(attempt: Attempt) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in attempt.path("child_outcomes").glob("*.json")]


def cost(microusd: int) -> Usage:
    return Usage(
        attempts=1, duration_ms=5, input_tokens=10, output_tokens=1, cost_microusd=microusd
    )


# --- up and down ----------------------------------------------------------------------------------


def test_three_levels_unwind_one_after_the_other(machine: Machine) -> None:
    machine.descend("outer")
    inner = machine.attempt()
    machine.ask(inner, "inner")
    machine.end()
    deepest = machine.begin()
    assert phases(machine) == [(0, "suspended"), (1, "suspended"), (2, "executing")]
    assert deepest.document["identity"]["work_item_id"] == "inner"
    machine.meet_goal(deepest)
    machine.end()
    # A child that met its goal closes nothing: its parent goes on, and so does the root.
    middle = machine.begin()
    assert phases(machine) == [(0, "suspended"), (1, "executing"), (2, "terminal")]
    [fact] = outcomes(middle)
    assert (fact["status"], fact["work_item_id"]) == ("goal_met", "inner")
    assert fact["completeness"]["eval_receipt"] is True
    assert list(middle.path("parent_acceptance").iterdir()) == []
    assert machine.layers.dispatch(middle.assignment, "inner").standing == "ready_for_review"
    assert "ready_for_review" in (middle.path("project_state") / "work_items.md").read_text()
    machine.meet_goal(middle)
    machine.end()
    top = machine.begin()
    assert phases(machine) == [(0, "executing"), (1, "terminal"), (2, "terminal")]
    machine.meet_goal(top)
    machine.end()
    assert machine.run().detail == "goal_met"
    assert machine.layers.check() == ()


def test_a_rework_is_another_child_that_supersedes_the_first(machine: Machine) -> None:
    machine.meet_goal(machine.descend())
    machine.end()
    review = machine.begin()
    [first] = outcomes(review)
    machine.layers.accept(first["request_id"], "rework", "Not yet.", assignment=review.assignment)
    second = machine.ask(review, supersedes=first["request_id"])
    assert second != first["request_id"]
    machine.end()
    machine.meet_goal(machine.begin())
    machine.end()
    review = machine.begin()
    assert len(outcomes(review)) == 2
    machine.layers.accept(
        second, "accepted", "Now.", ["repo:/part.txt"], assignment=review.assignment
    )
    decisions = {one.request_id: judged for one, judged in machine.layers.outcomes()}
    assert {name: judged and judged.decision for name, judged in decisions.items()} == {
        first["request_id"]: "rework", second: "accepted",
    }  # fmt: skip
    assert machine.layers.check() == ()


@pytest.mark.parametrize("wrong", ["torn", "link", "limits", "set"])
def test_a_rejected_request_never_stops_its_layer(tmp_path: Path, wrong: str) -> None:
    machine = Machine(tmp_path, limits=Limits(max_depth=0) if wrong == "limits" else None)
    attempt = machine.begin()
    pending = attempt.path("child_requests")
    if wrong == "torn":
        (pending / "r.json").write_text('{"schema_version": 2')
    elif wrong == "link":
        (pending / "r.json").symlink_to("/etc/passwd")
    else:
        machine.ask(attempt, workflow_set="none" if wrong == "set" else "all")
    machine.end()
    # One pass, and its parent goes on.
    second = machine.begin()
    assert second.layer.session.depth == 0
    assert list(pending.iterdir()) == []
    [requests] = machine.layers.requests()
    [refusal] = requests.rejected
    assert refusal.code == {
        "torn": "record_invalid", "link": "file_not_regular", "limits": "depth_limit",
        "set": "workflow_set_missing",
    }[wrong]  # fmt: skip
    machine.end()
    assert machine.begin().layer.session.depth == 0
    assert len(machine.layers.requests()[0].rejected) == 1


def ends(attempt: Attempt, machine: Machine, reason: str) -> None:
    """Let the child of the attempt end for `reason`."""
    if reason == "goal_met":
        machine.meet_goal(attempt)
        machine.end()
    elif reason == "unresolvable_error":
        value = {
            "schema_version": 2, "control_id": "c", "state": "stopped",
            "stop_reason": "unresolvable_error", "created_at_ms": 1, "summary": "No.",
            "producer": {
                name: attempt.document["identity"][name]
                for name in ("session_id", "role", "attempt_id")
            },
            "blocker": "billable",
            "attempted_routes": [{"route": "a", "outcome": "b", "evidence_ref": "repo:/README"}],
        }  # fmt: skip
        attempt.path("control").write_text(json.dumps(value))
        machine.end()
    elif reason == "role_failures":
        machine.end("crash")
    elif reason == "invalid_control":
        attempt.path("control").write_text("{}")
        machine.end()
    elif reason == "failed_goal_checks":
        data = {"eval_receipt_ref": "session:/eval_receipts/none.json", "stop_reason": "goal_met"}
        identity = attempt.document["identity"]
        value = data | {
            "schema_version": 2, "control_id": "c", "state": "stopped", "created_at_ms": 1,
            "producer": {name: identity[name] for name in ("session_id", "role", "attempt_id")},
        }  # fmt: skip
        attempt.path("control").write_text(json.dumps(value))
        machine.end()
    elif reason == "cost_cap":
        machine.end(usage=cost(700))
    else:
        machine.end()


REASONS: dict[str, tuple[dict[str, Any], str]] = {
    "goal_met": ({}, "It is."),
    "unresolvable_error": ({}, "No."),
    "max_turns": ({"caps": {"max_turns": 1}}, "1 attempt of 1 allowed were begun"),
    "role_failures": (
        {"caps": {"max_role_failures": 1}}, "worker failed 1 time in a row, and 1 of them ends",
    ),
    "invalid_control": (
        {"caps": {"max_invalid_controls": 1}}, "1 control could not be followed, and 1 of them",
    ),
    "failed_goal_checks": (
        {"caps": {"max_failed_goal_checks": 1}},
        "the goal was checked and not met 1 time, and 1 of them",
    ),
    "cost_cap": ({"caps": {"max_cost_microusd": 600}}, "has cost 0.000700 USD, of 0.000600 USD"),
    "no_role": (
        {"roles": {"worker": "must_follow: other", "other": "run_on_start: true\nrun_every: 9"},
         "rights": {"goal_control": ["worker"]}},
        "none of 2: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_a_child_ends_for_its_own_reason_and_its_parent_goes_on(
    tmp_path: Path, reason: str
) -> None:
    words, detail = REASONS[reason]

    def sets(root: Path) -> None:
        write_set(root)
        write_set(root, "below", **words)

    machine = Machine(tmp_path, sets=sets)
    child = machine.descend(workflow_set="below")
    if reason == "no_role":
        machine.end("crash")
    else:
        ends(child, machine, reason)
    review = machine.begin()
    assert review.layer.session.depth == 0
    [fact] = outcomes(review)
    assert fact["stop_reason"] == reason
    assert detail in fact["stop_detail"]
    ended = machine.state(child.layer)
    assert (ended.stop_reason, ended.phase) == (reason, "terminal")
    assert machine.state(review.layer).rolled_usage == ended.usage
    [entry] = tree.read_children(machine.around.disk, review.layer).children
    assert (entry.status, entry.stop_reason) == (ended.status, reason)
    assert machine.layers.check() == ()


# --- what it costs --------------------------------------------------------------------------------


def test_usage_goes_up_the_tree_once(machine: Machine) -> None:
    machine.ask(machine.begin(), "outer")
    machine.end(usage=cost(1))
    machine.ask(machine.begin(), "inner")
    machine.end(usage=cost(20))
    machine.meet_goal(machine.begin())
    machine.end(usage=cost(300))
    machine.meet_goal(machine.begin())
    machine.end(usage=cost(4000))
    machine.meet_goal(machine.begin())
    machine.end(usage=cost(50_000))
    assert machine.run().did == "over"
    state = machine.state(machine.top)
    assert state.own_usage.cost_microusd == 50_001
    assert state.rolled_usage.cost_microusd == 4_320
    assert state.usage == Usage(
        attempts=5, duration_ms=25, input_tokens=50, output_tokens=5, cost_microusd=54_321
    )


def test_usage_has_an_end_and_stops_nothing(machine: Machine) -> None:
    most = 2**53 - 1
    machine.begin()
    machine.end(usage=Usage(attempts=1, input_tokens=most, cost_microusd=most - 1))
    machine.begin()
    state = machine.end(usage=Usage(attempts=1, input_tokens=most, cost_microusd=1))
    assert (state.own_usage.input_tokens, state.own_usage.cost_microusd) == (most, most)
    assert state.own_usage.attempts == 2


def test_what_a_layer_may_cost_binds_all_below_it(tmp_path: Path) -> None:
    def sets(root: Path) -> None:
        write_set(root, caps={"max_cost_microusd": 1000})
        write_set(root, "below")

    machine = Machine(tmp_path, sets=sets)
    machine.ask(machine.begin(), workflow_set="below")
    machine.end(usage=cost(400))
    child = machine.begin().layer
    machine.end(usage=cost(500))
    machine.begin()
    machine.end(usage=cost(100))
    assert machine.run().detail == "cost_cap"
    ended, top = machine.state(child), machine.state(machine.top)
    assert (ended.stop_reason, ended.iteration) == ("cost_cap", 2)
    assert "0.001000 USD, of 0.001000 USD allowed" in (ended.stop_detail or "")
    assert machine.top.session.session_id in (ended.stop_detail or "")
    assert (top.stop_reason, top.iteration) == ("cost_cap", 1)


def test_killed_at_any_step_of_unwinding_nothing_counts_twice(machine: Machine) -> None:
    machine.layers.update("too late", machine.top.session.session_id)
    child = machine.descend().layer
    machine.meet_goal(machine.attempt())
    machine.layers.update("never told")
    machine.end(usage=cost(7))
    tried = 0
    for _effect in killed_at_each_effect(machine):
        tried += 1
        # What comes in between changes the evidence, and no fact.
        late = machine.around.disk.path(child.file("delivery_receipts", "late.json"))
        late.write_text("{}")
        attempt = machine.begin()
        assert attempt.layer.session.depth == 0
        assert attempt.document["updates"] == ["never told"]
        assert machine.state(attempt.layer).rolled_usage.cost_microusd == 7
        [entry] = tree.read_children(machine.around.disk, attempt.layer).children
        assert entry.usage.cost_microusd == 7
        assert machine.layers.check() == ()
    assert tried >= 6


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: (folder / "large.json").write_bytes(b"x" * 2_000_000),
        lambda folder: (folder / "a\nb.json").write_text("{}"),
        lambda folder: (folder / "shut.json").mkdir(),
        lambda folder: (folder / "away.json").symlink_to("/etc/passwd"),
        lambda folder: [(folder / f"{n}.json").write_text("{}") for n in range(600)],
    ],
)
def test_whatever_a_child_leaves_as_evidence_its_parent_goes_on(
    machine: Machine, make: Any
) -> None:
    child = machine.descend()
    make(child.path("delivery_receipts"))
    machine.meet_goal(child)
    machine.end()
    [fact] = outcomes(machine.begin())
    assert len(fact["evidence"]) <= 500
    assert not any("away" in one["ref"] or "shut" in one["ref"] for one in fact["evidence"])


def test_an_outcome_that_tells_another_end_is_damage(machine: Machine) -> None:
    child = machine.descend()
    machine.meet_goal(child)
    machine.end()

    with pytest.raises(Killed):
        machine.step(killing_where(lambda step, at: step == "link" and "child_outcomes" in at))
    [place] = machine.around.disk.path(machine.top.file("child_outcomes")).glob("*.json")
    place.write_text(json.dumps(json.loads(place.read_bytes()) | {"stop_detail": "Otherwise."}))
    with pytest.raises(CallboardError) as found:
        machine.step()
    assert found.value.code == "layer_corrupt"


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_no_layer_lies_deeper_than_the_root_allows(tmp_path: Path, depth: int) -> None:
    machine = Machine(tmp_path, limits=Limits(max_depth=depth))
    for _level in range(depth):
        machine.ask(machine.begin())
        machine.end()
    attempt = machine.begin()
    assert attempt.layer.session.depth == depth
    machine.ask(attempt)
    machine.end()
    # Its envelope cannot be raised from below.
    assert machine.begin().layer.session.depth == depth
    refused = [one.code for all_of in machine.layers.requests() for one in all_of.rejected]
    assert refused == ["depth_limit"]


def test_descendants_are_counted_over_the_life_of_a_tree(tmp_path: Path) -> None:
    machine = Machine(tmp_path, limits=Limits(max_descendants=5))
    machine.descend("a")
    for name in ("b", "c"):
        machine.ask(machine.attempt(), name)
        machine.end()
        machine.meet_goal(machine.begin())
        machine.end()
        machine.begin()
    machine.meet_goal(machine.attempt())
    machine.end()
    for name in ("d", "e", "f"):
        machine.ask(machine.begin(), name)
        machine.end()
        attempt = machine.begin()
        if name == "f":
            assert attempt.layer.session.depth == 0
            break
        machine.meet_goal(attempt)
        machine.end()
    refused = [one.code for all_of in machine.layers.requests() for one in all_of.rejected]
    assert refused == ["descendants_limit"]
    assert len(machine.layers.status()) == 6


# --- finding the deepest --------------------------------------------------------------------------


def test_killed_at_any_step_of_the_hand_over_the_child_is_made_once(machine: Machine) -> None:
    request = machine.ask(machine.begin())
    machine.end()
    tried = 0
    for tried in killed_at_each_effect(machine):
        attempt = machine.begin()
        assert attempt.layer.session.depth == 1
        assert attempt.layer.session.request_id == request
        assert machine.state(machine.top).task is None
        assert [one.layer.session.depth for one in machine.layers.status()] == [0, 1]
        machine.end()
        assert machine.begin().layer.session.depth == 1
        assert machine.layers.check() == (), tried
    assert tried >= 40


def test_an_input_that_was_changed_is_given_to_nobody(machine: Machine) -> None:
    child = machine.descend()
    [given] = child.document["inputs"]
    (child.path("inputs") / "artifacts" / "stray.txt").write_text("hello")
    machine.end()
    assert machine.begin().document["inputs"] == [given]
    machine.end()
    place = child.path("inputs") / "artifacts" / given["ref"].rpartition("/")[2]
    place.write_bytes(place.read_bytes() + b" ")
    assert machine.begin().document["inputs"] == [given]
    assert trees.sha(place.read_bytes()) == given["sha256"]


def _shut(path: Path) -> None:
    path.unlink()
    (path / "deep").mkdir(parents=True)


def _linked(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name("copy")))


SPOILT: list[Callable[[Path], object]] = [
    Path.unlink, _shut, _linked, lambda path: path.write_bytes(b""),
    lambda path: shutil.rmtree(path.parent),
]  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.parametrize("name", ["artifact", "request"])
def test_what_a_child_was_given_is_restored_from_the_other_copy(
    machine: Machine, spoil: Callable[[Path], object], name: str
) -> None:
    child = machine.descend()
    [given] = child.document["inputs"]
    artifact = child.path("inputs") / "artifacts" / given["ref"].rpartition("/")[2]
    spoil(artifact if name == "artifact" else child.path("inputs") / "accepted_request.json")
    machine.end()
    attempt = machine.begin()
    assert attempt.document["inputs"] == [given]
    assert trees.sha(artifact.read_bytes()) == given["sha256"]
    assert machine.layers.check() == ()
    machine.meet_goal(attempt)
    machine.end()
    assert outcomes(machine.begin())[0]["status"] == "goal_met"


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.parametrize("name", ["artifact", "request"])
def test_a_child_that_has_lost_what_it_was_given_ends_and_may_be_asked_for_anew(
    machine: Machine, spoil: Callable[[Path], object], name: str
) -> None:
    child = machine.descend()
    [given] = child.document["inputs"]
    top = machine.around.disk.path(machine.top.place)
    request = str(child.layer.session.request_id)
    if name == "artifact":
        spoil(child.path("inputs") / "artifacts" / given["ref"].rpartition("/")[2])
        (top / "project_state/dispatch_inputs" / f"{request}.json").write_bytes(b"{}")
    else:
        spoil(child.path("inputs") / "accepted_request.json")
        (top / "child_requests/accepted" / f"{request}.json").write_bytes(b"{}")
    machine.end()
    attempt = machine.begin()
    assert attempt.layer.session.depth == 0
    [fact] = outcomes(attempt)
    assert (fact["status"], fact["stop_reason"]) == ("stopped", "inputs_lost")
    assert "no other copy" in fact["stop_detail"]
    assert machine.ask(attempt, supersedes=request) != request
    machine.end()
    assert machine.begin().layer.session.depth == 1
