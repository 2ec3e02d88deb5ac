"""The specification of the dispatcher as a table: each of its rules, and the test that holds it.

Where a rule binds an agent, its test shows what the engine does with a breach.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.layers import acceptance, assigned, controls, evaluating
from callboard.layers.layers import Layers
from callboard.layers.records.control import AttemptedRoute
from tests.layers import trees
from tests.layers.dispatching.rules import RULES
from tests.layers.killing import Killed, killing
from tests.layers.requests.parent import (
    PARENT_CRITERION,
    SCOPE,
    Parent,
    item,
    parent,
)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_has_a_test(rule: str) -> None:
    assert callable(globals()[f"test_{RULES[rule]}"])


@pytest.fixture
def made(tmp_path: Path) -> Parent:
    return parent(tmp_path)


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(root)): one.read_bytes()
        for one in sorted(root.rglob("*"))
        if one.is_file()
    }


def new_files(made: Parent, before: dict[str, bytes]) -> list[str]:
    found = contents(made.root_path)
    return sorted(name for name in found if found[name] != before.get(name))


def refusal(call: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(CallboardError) as caught:
        call(*arguments, **named)
    return caught.value.code


def pending(made: Parent) -> dict[str, Any]:
    (name,) = made.names("pending")
    found = json.loads(made.path("child_requests/pending", name).read_bytes())
    assert isinstance(found, dict)
    return found


def snapshots(made: Parent) -> dict[str, bytes]:
    return contents(made.path("project_state/dispatch_inputs"))


def said(made: Parent) -> dict[str, str]:
    """The one-line fields of the first item, as a person reads them."""
    found = re.findall(r"^([a-z_]+): \"(.*)\"$", made.ledger_text(), re.MULTILINE)
    return dict(found)


# --- the role -------------------------------------------------------------------------------------


def test_exactly_one_request_is_published(made: Parent) -> None:
    assignment = made.begin()
    made.ledger(item() + "\n" + item("other"))
    assert made.dispatch(assignment).standing == "published"
    assert made.dispatch(assignment).standing == "already_published"
    before = contents(made.root_path)
    assert refusal(made.dispatch, assignment, "other") == "request_not_alone"
    assert new_files(made, before) == []
    assert len(made.names("pending")) == 1
    made.end()
    made.decide()
    assert made.children() == ["part-r1"]


def test_nothing_but_snapshot_request_ledger_and_scratch_is_written(made: Parent) -> None:
    assignment = made.begin()
    before = contents(made.root_path)
    made.dispatch(assignment)
    layer = made.layer.place
    trace = f".callboard/layers/traces/{made.session_id}/sessions/{made.session_id}"
    assert new_files(made, before) == [
        f"{layer}/child_requests/pending/part-r1.json",
        f"{layer}/project_state/dispatch_inputs/part-r1.json",
        f"{layer}/project_state/work_items.md",
        f"{trace}/attempts/0001_dispatcher/dispatch_part-r1.json",
    ]


def test_a_dispatcher_accepts_nothing(made: Parent) -> None:
    made.dispatch(made.begin())
    made.end()
    made.decide()
    made.end_child()
    who = assigned.read(made.around(), made.begin())
    code = refusal(
        acceptance.accept, made.around(), who.layer, "part-r1", "rework", "no", (), assigned=who
    )
    assert code == "role_not_allowed"
    assert list(made.path("parent_acceptance").iterdir()) == []


def test_a_dispatcher_evaluates_nothing(made: Parent) -> None:
    who = assigned.read(made.around(), made.begin())
    assert refusal(evaluating.evaluate, made.around(), who) == "role_not_allowed"


def test_a_dispatcher_says_no_goal_met(made: Parent) -> None:
    layers = Layers(made.around())
    code = refusal(
        layers.control, made.begin(), "goal_met", eval_receipt_ref="session:/eval_receipts/a.json"
    )
    assert code == "control_role"
    assert not made.path("control.json").exists()


# --- the assignment -------------------------------------------------------------------------------


def test_the_assignment_is_read_at_its_exact_path(made: Parent, tmp_path: Path) -> None:
    assignment = made.begin()
    copy = tmp_path / "assignment.json"
    shutil.copy(assignment, copy)
    link = tmp_path / "link"
    link.symlink_to(made.root_path)
    for path in (
        copy,
        link / assignment.relative_to(made.root_path),
        Path(os.path.relpath(assignment)),
        assignment.parent / ".." / assignment.parent.name / "assignment.json",
    ):
        assert refusal(made.dispatch, path) == "assignment_invalid"
    assert made.names("pending") == []
    assert made.dispatch(assignment).standing == "published"


@pytest.mark.parametrize("field", ["identity/depth", "identity/role", "goal/goal", "updates"])
def test_an_edited_assignment_speaks_for_nobody(made: Parent, field: str) -> None:
    assignment = made.begin()
    value = json.loads(assignment.read_bytes())
    first, _, name = field.partition("/")
    if name:
        value[first][name] = 1 if name == "depth" else "planner"
    else:
        value[first] = ["new"]
    assignment.write_bytes(json.dumps(value).encode())
    assert refusal(made.dispatch, assignment) == "assignment_stale"
    assert made.names("pending") == []


def test_places_come_from_the_assignment(made: Parent) -> None:
    assignment = made.begin()
    paths = json.loads(assignment.read_bytes())["paths"]
    made.dispatch(assignment)
    assert [one.name for one in Path(paths["child_requests"]).iterdir()] == ["part-r1.json"]
    assert (Path(paths["project_state"]) / "dispatch_inputs/part-r1.json").is_file()
    assert "part-r1" in (Path(paths["project_state"]) / "work_items.md").read_text()
    assert (Path(paths["trace_root"]) / "dispatch_part-r1.json").is_file()


def test_the_working_folder_tells_nothing(
    made: Parent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoy = tmp_path / "decoy"
    shutil.copytree(made.root_path, decoy)
    (decoy / made.layer.place / "project_state/work_items.md").write_text(item("lure"))
    before = contents(decoy)
    assignment = made.begin()
    for folder in (decoy, decoy / made.layer.place, decoy / made.layer.place / "child_requests"):
        monkeypatch.chdir(folder)
        made.dispatch(assignment)
    assert contents(decoy) == before
    assert made.names("pending") == ["part-r1.json"]


def test_the_request_folder_is_the_pending_one(made: Parent) -> None:
    assignment = made.begin()
    path = Path(json.loads(assignment.read_bytes())["paths"]["child_requests"])
    assert path == made.path("child_requests/pending")
    made.dispatch(assignment)
    # A request in a flat folder beside it is not read at all.
    shutil.move(path / "part-r1.json", path.parent / "part-r1.json")
    made.end()
    assert made.decide().child is None
    assert (path.parent / "part-r1.json").is_file()


# --- looking first --------------------------------------------------------------------------------


def test_what_stands_is_looked_at_first(made: Parent) -> None:
    """Pending, then accepted and alive, then ended: nothing is published for any of them."""
    assignment = made.begin()
    made.dispatch(assignment)
    first = snapshots(made)
    made.dispatch(assignment)
    made.end()
    made.decide()
    made.end_child()
    assert made.dispatch(made.begin()).standing == "ready_for_review"
    made.end()
    assert made.dispatch(made.begin()).standing == "ready_for_review"
    assert snapshots(made) == first
    assert made.names("pending") == []


def test_the_id_is_the_key_and_not_the_file_name(made: Parent) -> None:
    assignment = made.begin()
    made.dispatch(assignment)
    folder = made.path("child_requests/pending")
    (folder / "part-r1.json").rename(folder / "another-name.json")
    again = made.dispatch(assignment)
    assert (again.standing, again.request_id) == ("already_published", "part-r1")
    assert made.names("pending") == ["another-name.json"]
    shutil.copy(folder / "another-name.json", folder / "a-copy.json")
    made.end()
    made.decide()
    assert made.children() == ["part-r1"]
    assert (made.names("pending"), made.names("rejected")) == ([], [])


def test_a_live_child_has_no_second_request(made: Parent) -> None:
    made.dispatch(made.begin())
    made.end()
    state = made.decide()
    trees.change(made.disk, made.layer, child=None)
    # The index alone tells that the child lives; no attempt is ever begun in such a layer.
    made.ledger(item())
    assert made.dispatch(made.begin()).standing == "child_live"
    assert made.names("pending") == []
    assert state.child is not None
    assert said(made)["status"] == "waiting_for_child"


def test_a_pending_request_has_no_second_one(made: Parent) -> None:
    assignment = made.begin()
    made.put("by-hand.json", made.request("by-hand", "0001_dispatcher"))
    found = made.dispatch(assignment)
    assert (found.standing, found.request_id) == ("already_published", "by-hand")
    assert made.names("pending") == ["by-hand.json"]
    assert said(made)["request_id"] == "by-hand"


def test_an_accepted_request_has_no_second_one(made: Parent) -> None:
    made.dispatch(made.begin())
    made.end()
    made.decide()
    made.disk.remove_tree(made.layer.file("children.json"))
    index = {"schema_version": 1, "revision": 1, "children": []}
    made.path("children.json").write_bytes(json.dumps(index).encode())
    trees.change(made.disk, made.layer, child=None)
    made.ledger(item())
    assert made.dispatch(made.begin()).standing == "child_live"
    assert made.names("pending") == []


def test_an_ended_child_is_linked_and_up_for_review(made: Parent) -> None:
    made.dispatch(made.begin())
    made.end()
    made.decide()
    made.end_child()
    found = made.dispatch(made.begin())
    assert found.outcome_ref == "session:/child_outcomes/part-r1.json"
    assert said(made)["outcome_ref"] == found.outcome_ref
    assert said(made)["status"] == "ready_for_review"
    assert made.path("child_outcomes/part-r1.json").is_file()


@pytest.mark.parametrize("status", ["accepted", "rework", "blocked"])
def test_an_ended_child_is_never_called_accepted(made: Parent, status: str) -> None:
    made.dispatch(made.begin())
    made.end()
    made.decide()
    made.end_child()
    made.dispatch(made.begin())
    assert "accepted" not in made.ledger_text()
    assert list(made.path("parent_acceptance").iterdir()) == []
    # Nor is the planner's own word taken back.
    reviewed = made.ledger_text().replace("ready_for_review", status)
    made.ledger(reviewed)
    made.end()
    made.dispatch(made.begin())
    assert made.ledger_text() == reviewed


# --- the snapshot ---------------------------------------------------------------------------------


def test_the_id_is_stable_and_unique(made: Parent, tmp_path: Path) -> None:
    again = Parent(shutil.copytree(made.root_path, tmp_path / "again"))
    ids = []
    for one in (made, again):
        with pytest.raises(Killed):
            one.dispatch(one.begin(), effect=killing(2))
        one.end()
        ids.append(one.dispatch(one.begin()).request_id)
    assert ids == ["part-r1", "part-r1"]
    made.end()
    made.decide()
    made.end_child()
    made.ledger(item(supersedes="part-r1"))
    # The id is known by what was decided, whatever became of its snapshot.
    made.path("project_state/dispatch_inputs/part-r1.json").unlink()
    assert made.dispatch(made.begin()).request_id == "part-r2"


def test_the_snapshot_has_its_place(made: Parent) -> None:
    made.path("project_state/dispatch_inputs").rmdir()
    made.dispatch(made.begin())
    assert list(snapshots(made)) == ["part-r1.json"]


def test_the_snapshot_says_why_it_was_this_child(made: Parent) -> None:
    (made.root_path / "notes.txt").write_bytes(b"look\n")
    made.ledger(
        item(
            decisions=["session:/project_state/decisions/1.md"],
            evidence=["session:/eval_receipts/e.json"],
            inputs=["repo:/notes.txt"],
        )
    )
    made.dispatch(made.begin())
    assert json.loads(snapshots(made)["part-r1.json"]) == {
        "schema_version": 1, "request_id": "part-r1", "session_id": made.session_id,
        "work_item_id": "part", "title": "The part of it", "workflow_set": "below",
        "supersedes_request_id": None, "child_scope": SCOPE,
        "decision_refs": ["session:/project_state/decisions/1.md"],
        "evidence_refs": ["session:/eval_receipts/e.json"],
        "input_inventory": [
            {
                "ref": "repo:/notes.txt",
                "sha256": "sha256:" + hashlib.sha256(b"look\n").hexdigest(),
            },
        ],
    }  # fmt: skip


def test_the_snapshot_appears_whole(made: Parent) -> None:
    seen: list[tuple[str, bool]] = []
    path = made.path("project_state/dispatch_inputs/part-r1.json")

    def effect(step: str, place: str) -> None:
        if place.endswith("dispatch_inputs/part-r1.json"):
            seen.append((step, path.exists()))
            if path.exists():
                json.loads(path.read_bytes())

    made.dispatch(made.begin(), effect=effect)
    assert seen == [("write", False), ("link", True)]


def test_a_published_snapshot_is_never_touched(made: Parent) -> None:
    assignment = made.begin()
    with pytest.raises(Killed):
        made.dispatch(assignment, effect=killing(2))
    (before,) = snapshots(made).items()
    facts = made.path("project_state/dispatch_inputs/part-r1.json").stat()
    for goal in ("Else", "Yet else"):
        made.ledger(item(scope=SCOPE | {"goal": goal}))
        with pytest.raises(Killed):
            made.dispatch(assignment, effect=killing(3))
    made.ledger(item())
    made.dispatch(assignment)
    assert before in snapshots(made).items()
    after = made.path("project_state/dispatch_inputs/part-r1.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (facts.st_ino, facts.st_mtime_ns)


def test_what_supersedes_has_an_id_of_its_own(made: Parent) -> None:
    made.dispatch(made.begin())
    made.end()
    made.decide()
    first = snapshots(made)
    made.end_child()
    made.ledger(item(supersedes="part-r1", scope=SCOPE | {"goal": "Write it better"}))
    found = made.dispatch(made.begin())
    assert (found.standing, found.request_id) == ("published", "part-r2")
    assert sorted(snapshots(made)) == ["part-r1.json", "part-r2.json"]
    assert snapshots(made)["part-r1.json"] == first["part-r1.json"]
    assert pending(made)["origin"]["supersedes_request_id"] == "part-r1"
    made.end()
    made.decide()
    assert made.children() == ["part-r1", "part-r2"]


def test_an_exact_snapshot_is_reused(made: Parent) -> None:
    with pytest.raises(Killed):
        made.dispatch(made.begin(), effect=killing(2))
    assert made.names("pending") == []
    made.end()
    found = made.dispatch(made.begin())
    assert found.request_id == "part-r1"
    assert list(snapshots(made)) == ["part-r1.json"]
    assert pending(made)["origin"]["parent_attempt_id"] == "0002_dispatcher"


@pytest.mark.parametrize("change", ["scope", "bytes", "folder", "input"])
def test_another_snapshot_is_left_as_it_is(made: Parent, change: str) -> None:
    (made.root_path / "a.txt").write_bytes(b"old")
    made.ledger(item(inputs=["repo:/a.txt"]))
    assignment = made.begin()
    with pytest.raises(Killed):
        made.dispatch(assignment, effect=killing(2))
    path = made.path("project_state/dispatch_inputs/part-r1.json")
    if change == "scope":
        made.ledger(item(inputs=["repo:/a.txt"], scope=SCOPE | {"goal": "Else"}))
    elif change == "bytes":
        path.write_bytes(path.read_bytes() + b"\n")
    elif change == "folder":
        path.unlink()
        path.mkdir()
    else:
        (made.root_path / "a.txt").write_bytes(b"new")
    before = snapshots(made)
    assert made.dispatch(assignment).request_id == "part-r2"
    after = snapshots(made)
    assert {name: after[name] for name in before} == before
    assert sorted(after.keys() - before.keys()) == ["part-r2.json"]
    made.end()
    made.decide()
    assert made.children() == ["part-r2"]


def test_the_digest_is_of_the_exact_bytes(made: Parent) -> None:
    made.dispatch(made.begin())
    data = snapshots(made)["part-r1.json"]
    assert pending(made)["inputs"] == [
        {
            "ref": "parent:/project_state/dispatch_inputs/part-r1.json",
            "sha256": "sha256:" + hashlib.sha256(data).hexdigest(),
        }
    ]


# --- the request ----------------------------------------------------------------------------------


def test_the_request_is_of_version_two(made: Parent) -> None:
    made.dispatch(made.begin())
    request = pending(made)
    inputs = request.pop("inputs")
    assert len(inputs) == 1
    assert request == {
        "schema_version": 2, "request_id": "part-r1", "workflow_set": "below",
        "origin": {
            "parent_attempt_id": "0001_dispatcher", "parent_work_item_id": "part",
            "supersedes_request_id": None,
        },
        "assignment": SCOPE,
    }  # fmt: skip


def test_criteria_are_those_of_the_item(made: Parent) -> None:
    made.dispatch(made.begin())
    assert pending(made)["assignment"]["completion_criteria"] == ["part.txt says done"]
    assert PARENT_CRITERION not in made.path("child_requests/pending/part-r1.json").read_text()
    # An item without criteria of its own gets none from the parent.
    made.end()
    made.decide()
    made.end_child()
    without = {name: SCOPE[name] for name in SCOPE if name != "completion_criteria"}
    for scope, code in (
        (without, "work_items_invalid"),
        (SCOPE | {"completion_criteria": []}, "work_items_invalid"),
        (None, "work_item_unscoped"),
    ):  # fmt: skip
        made.ledger(item("bare", scope=scope))
        assignment = made.begin()
        assert refusal(made.dispatch, assignment, "bare") == code
        made.end()
    assert list(snapshots(made)) == ["part-r1.json"]


def test_context_and_evidence_go_along(made: Parent) -> None:
    scope = SCOPE | {
        "constraints": ["keep the interface"], "stop_criteria": ["the file is generated"],
        "required_evidence": ["eval receipt", "git receipt", "delivery receipt"],
    }  # fmt: skip
    made.ledger(item(scope=scope))
    made.dispatch(made.begin())
    made.end()
    state = made.decide()
    assert state.child is not None
    goal = json.loads(
        made.path("children", state.child.session_id, "goal_contract.json").read_bytes()
    )
    assert {name: goal[name] for name in scope} == scope


def test_nothing_of_other_items_goes_along(made: Parent) -> None:
    made.ledger("# All of it\n\nSecret plan.\n\n" + item() + "\n" + item("another-one"))
    made.dispatch(made.begin())
    made.end()
    state = made.decide()
    assert state.child is not None
    for data in contents(made.path("children", state.child.session_id)).values():
        assert b"another-one" not in data
        assert b"Secret plan" not in data


def test_the_set_is_the_one_of_the_item(made: Parent) -> None:
    made.ledger(item(workflow_set="above"))
    made.dispatch(made.begin())
    assert pending(made)["workflow_set"] == "above"
    made.end()
    made.decide()
    assert made.child().layer.session.workflow_set == "above"
    made.end_child()
    text = item("usual").replace('workflow_set: "below"\n', "")
    assert "workflow_set" not in text
    made.ledger(text)
    made.dispatch(made.begin(), "usual")
    assert pending(made)["workflow_set"] == "inner_outer_eval"


def test_the_ledger_is_never_an_input(made: Parent) -> None:
    made.dispatch(made.begin())
    refs = [one["ref"] for one in pending(made)["inputs"]]
    assert not any("work_items" in ref for ref in refs)
    made.end()
    made.decide()
    made.end_child()
    for ref in ("session:/project_state/work_items.md", "root:/project_state/work_items.md"):
        made.ledger(item("greedy", inputs=[ref]))
        assignment = made.begin()
        assert refusal(made.dispatch, assignment, "greedy") == "input_mutable"
        made.put("by-hand.json", _with_ledger(made, ref))
        made.end()
        made.decide()
        assert made.codes() == {"by-hand.json": "input_mutable"}
        shutil.rmtree(made.path("child_requests/rejected"))
        made.path("child_requests/rejected").mkdir()
    assert list(snapshots(made)) == ["greedy-x.json", "part-r1.json"]


def _with_ledger(made: Parent, ref: str) -> dict[str, Any]:
    task = made.state.task
    assert task is not None
    request = made.request("greedy-x", task.attempt_id, "greedy")
    ref = ref.replace("session:/", "parent:/")
    digest = hashlib.sha256(made.ledger_text().encode()).hexdigest()
    request["inputs"].append({"ref": ref, "sha256": f"sha256:{digest}"})
    return request


def test_digests_are_compared_after_the_attempt(made: Parent) -> None:
    (made.root_path / "a.txt").write_bytes(b"as declared")
    made.ledger(item(inputs=["repo:/a.txt"]))
    made.dispatch(made.begin())
    (made.root_path / "a.txt").write_bytes(b"changed later in the attempt")
    made.end()
    assert made.decide().child is None
    assert made.codes() == {"part-r1.json": "input_changed"}


# --- how it is written ----------------------------------------------------------------------------


def test_the_request_is_closed_under_another_ending_first(made: Parent) -> None:
    folder = made.path("child_requests/pending")
    seen: list[tuple[str, list[str], int]] = []

    def effect(step: str, place: str) -> None:
        if "/child_requests/pending/" in place:
            held = [
                target
                for one in Path("/proc/self/fd").iterdir()
                if (target := os.readlink(one) if one.exists() else "").startswith(f"{folder}/")
            ]
            seen.append((step, [one.name for one in folder.iterdir()], len(held)))

    made.dispatch(made.begin(), effect=effect)
    assert [(step, held) for step, _names, held in seen] == [("write", 0), ("rename", 0)]
    (sibling,) = seen[0][1]
    assert not sibling.endswith(".json")
    assert seen[1][1] == ["part-r1.json"]


def test_the_final_name_is_free(made: Parent) -> None:
    made.put("part-r1.json", b"something else")
    made.dispatch(made.begin())
    assert made.names("pending") == ["part-r1.2.json", "part-r1.json"]
    assert made.path("child_requests/pending/part-r1.json").read_bytes() == b"something else"
    made.end()
    made.decide()
    assert made.children() == ["part-r1"]
    assert made.codes() == {"part-r1.json": "record_invalid"}


def test_the_ledger_is_marked_after_the_rename_alone(made: Parent) -> None:
    before = made.ledger_text()
    seen: list[tuple[str, bool]] = []

    def effect(step: str, place: str) -> None:
        is_there = made.path("child_requests/pending/part-r1.json").exists()
        seen.append((step, is_there))
        if not is_there:
            assert made.ledger_text() == before
        if place.endswith("work_items.md"):
            assert is_there

    assignment = made.begin()
    made.dispatch(assignment, effect=effect)
    assert made.ledger_text() != before
    assert ("rename", True) in seen


def test_the_ledger_names_the_request(made: Parent) -> None:
    made.dispatch(made.begin())
    assert said(made) == {
        "status": "waiting_for_child", "workflow_set": "below", "request_id": "part-r1",
        "request_path": "session:/child_requests/pending/part-r1.json",
    }  # fmt: skip


def test_the_order_is_strict(made: Parent) -> None:
    seen: list[tuple[str, str]] = []
    made.dispatch(made.begin(), effect=lambda step, place: seen.append((step, place)))
    published = [
        place.removeprefix(f"{made.layer.place}/")
        for step, place in seen
        if step in ("link", "rename") and place.startswith(made.layer.place)
    ]
    assert published == [
        "project_state/dispatch_inputs/part-r1.json",
        "child_requests/pending/part-r1.json",
        "project_state/work_items.md",
    ]


def test_archives_keep_their_bytes(made: Parent) -> None:
    made.put("bad.json", b"{")
    made.dispatch(made.begin())
    made.end()
    made.decide()
    made.end_child()
    before = {
        folder: contents(made.path("child_requests", folder)) for folder in ("accepted", "rejected")
    }
    assert all(before.values())
    made.ledger(item(supersedes="part-r1"))
    made.dispatch(made.begin())
    made.end()
    made.decide()
    for folder, found in before.items():
        after = contents(made.path("child_requests", folder))
        assert {name: after[name] for name in found} == found


def test_scratch_lies_in_the_trace(made: Parent) -> None:
    assignment = made.begin()
    trace = Path(json.loads(assignment.read_bytes())["paths"]["trace_root"])
    made.dispatch(assignment)
    assert [one.name for one in trace.iterdir()] == ["dispatch_part-r1.json"]
    # Nothing is decided by it.
    shutil.rmtree(trace)
    made.end()
    assert made.decide().child is not None


# --- who ------------------------------------------------------------------------------------------


def test_nobody_speaks_for_an_attempt_that_is_over(made: Parent) -> None:
    assignment = made.begin()
    made.end()
    before = contents(made.root_path)
    assert refusal(made.dispatch, assignment) == "assignment_stale"
    made.begin()
    assert refusal(made.dispatch, assignment) == "assignment_stale"
    changed = new_files(made, before)
    assert not any("child_requests" in name or "dispatch_inputs" in name for name in changed)


def test_only_a_role_that_may_ask_dispatches(made: Parent) -> None:
    assignment = made.begin("planner")
    assert refusal(made.dispatch, assignment) == "role_not_allowed"
    made.put("a.json", made.request("a", "0001_planner"))
    made.end()
    made.decide()
    assert made.codes() == {"a.json": "request_origin_unknown"}


# --- the last resort ------------------------------------------------------------------------------

ROUTES = (
    AttemptedRoute(
        route="asked again", outcome="refused",
        evidence_ref="session:/child_requests/rejected/a.receipt.json",
    ),
)  # fmt: skip


def test_a_blocker_has_routes_and_evidence(made: Parent) -> None:
    layers = Layers(made.around())
    assignment = made.begin()
    bare = (AttemptedRoute(route="asked again", outcome="refused"),)
    for routes in ((), bare):
        code = refusal(
            layers.control, assignment, "unresolvable_error", summary="no", blocker="credential",
            attempted_routes=routes,
        )  # fmt: skip
        assert code == "control_unfounded"
    assert not made.path("control.json").exists()


def test_a_blocker_is_of_a_known_kind(made: Parent) -> None:
    layers = Layers(made.around())
    assignment = made.begin()
    for blocker, code in ((None, "control_unfounded"), ("too_hard", "record_invalid")):
        found = refusal(
            layers.control, assignment, "unresolvable_error", summary="no", blocker=blocker,
            attempted_routes=ROUTES,
        )  # fmt: skip
        assert found == code


def test_a_blocker_is_said_by_exactly_this_producer(made: Parent) -> None:
    made.begin()
    value = {
        "schema_version": 2, "control_id": "c1", "state": "stopped",
        "stop_reason": "unresolvable_error", "created_at_ms": 1, "summary": "no",
        "blocker": "credential",
        "producer": {
            "session_id": made.session_id, "role": "dispatcher", "attempt_id": "0009_dispatcher",
        },
        "attempted_routes": [
            {"route": "a", "outcome": "b", "evidence_ref": "session:/eval_receipts/a.json"}
        ],
    }  # fmt: skip
    controls.of(value)
    made.path("control.json").write_bytes(json.dumps(value).encode())
    made.end()
    assert made.state.status == "running"
    assert list(made.path("control_rejected").iterdir()) != []


def test_a_refused_request_is_repaired(made: Parent) -> None:
    (made.root_path / "a.txt").write_bytes(b"one")
    made.ledger(item(inputs=["repo:/a.txt"]))
    made.dispatch(made.begin())
    (made.root_path / "a.txt").write_bytes(b"two")
    made.end()
    made.decide()
    assert made.state.phase == "ready"
    assert said(made)["status"] == "waiting_for_child"
    found = made.dispatch(made.begin())
    assert (found.standing, found.request_id) == ("published", "part-r2")
    assert said(made)["request_id"] == "part-r2"
    made.end()
    made.decide()
    assert made.children() == ["part-r2"]
