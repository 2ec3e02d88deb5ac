"""A check tells everything that is wrong with a tree at once, and changes nothing."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callboard.layers import tree
from callboard.layers.checking import Finding, check
from callboard.layers.disk import Disk
from callboard.layers.records.session import Limits
from tests.board.building import refused
from tests.layers import trees

R = ".callboard/layers/sessions/R"
A = f"{R}/children/A"
B = f"{R}/children/B"
B1 = f"{B}/children/B1"
ATTEMPT = f"{R}/attempts/0001_planner"

Damage = Callable[[Disk], object]


def grow(disk: Disk) -> None:
    root = trees.start(disk)
    trees.attempt(disk, root)
    first = trees.grow(disk, root, "A")
    trees.end(disk, root, first)
    second = trees.grow(disk, root, "B")
    below = trees.grow(disk, second, "B1")
    trees.attempt(disk, below)
    trees.attempt(disk, below, 2, under_way=True)


@pytest.fixture
def grown(disk: Disk, copied: Callable[[Callable[[Disk], object], Disk], None]) -> Disk:
    """R with the ended child A and the live child B, whose live child B1 carries out a task."""
    copied(grow, disk)
    return disk


def told(disk: Disk, root_id: str | None = None) -> list[Finding]:
    before = trees.everything(disk.root)
    found = check(trees.around(disk.root), root_id)
    assert trees.everything(disk.root) == before
    assert list(found) == sorted(found, key=lambda one: (one.place, one.code, one.message))
    for one in found:
        assert one.message.isprintable()
        assert one.hint
    return list(found)


def places(disk: Disk) -> set[tuple[str, str]]:
    return {(one.code, one.place) for one in told(disk)}


def test_a_sound_tree_has_no_findings(grown: Disk) -> None:
    assert told(grown) == []
    assert told(grown, "R") == []


def test_there_has_to_be_a_tree(disk: Disk) -> None:
    for name in ("X", "..", ""):
        assert refused(check, trees.around(disk.root), name).code == "layer_missing"
    assert check(trees.around(disk.root)) == ()
    disk.make_folder(".callboard/layers")
    assert {one.place for one in check(trees.around(disk.root))} == {
        ".callboard/layers/repository.json"
    }


# --- damage of single files -----------------------------------------------------------------------


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _unknown_field(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"{", b'{"surprise":1,', 1))


RECORDS = (
    ".callboard/layers/repository.json",
    f"{R}/session.json", f"{R}/state.json", f"{R}/children.json", f"{R}/goal_contract.json",
    f"{R}/workflow_contract.json", f"{A}/session.json", f"{A}/state.json",
    f"{A}/inputs/accepted_request.json", f"{B1}/session.json",
    f"{R}/child_requests/accepted/req.A.json", f"{R}/child_requests/accepted/req.A.receipt.json",
    f"{R}/child_outcomes/req.A.json", f"{R}/project_state/dispatch_inputs/req.A.json",
    f"{ATTEMPT}/assignment.json", f"{ATTEMPT}/result.json", f"{ATTEMPT}/finished.json",
    f"{B1}/attempts/0002_planner/assignment.json",
)  # fmt: skip


@pytest.mark.parametrize("damage", [_zeros, _half, _empty, _unknown_field])
def test_every_damaged_record_is_told_at_once(grown: Disk, damage: Callable[[Path], None]) -> None:
    for place in RECORDS:
        damage(grown.path(place))
    found = {one.place for one in told(grown) if one.code == "layer_corrupt"}
    assert found >= set(RECORDS)


@pytest.mark.parametrize("place", RECORDS)
def test_a_record_that_is_missing_is_told(grown: Disk, place: str) -> None:
    if place == f"{ATTEMPT}/finished.json":
        # Only once another one followed it had it to be finished.
        trees.change(grown, tree.root(grown), iteration=2)
    grown.path(place).unlink()
    found = [one for one in told(grown) if one.place == place]
    assert found, place


def test_a_damaged_layer_hides_no_other(grown: Disk) -> None:
    _zeros(grown.path(f"{R}/session.json"))
    _zeros(grown.path(f"{B}/session.json"))
    _zeros(grown.path(f"{B1}/state.json"))
    assert places(grown) == {
        ("layer_corrupt", f"{R}/session.json"),
        ("layer_corrupt", f"{B}/session.json"),
        ("layer_corrupt", f"{B1}/state.json"),
    }


@pytest.mark.parametrize(
    "place",
    [
        f"{R}/goal.md", f"{R}/goal_contract.json", f"{R}/workflow_contract.json",
        f"{ATTEMPT}/prompt.md", f"{ATTEMPT}/workflow_snapshot/config.yaml",
        f"{ATTEMPT}/workflow_snapshot/prompt.md", f"{ATTEMPT}/result.json",
        f"{B1}/attempts/0002_planner/assignment.json",
        f"{R}/project_state/dispatch_inputs/req.A.json",
        f"{R}/child_requests/accepted/req.A.json", f"{A}/inputs/accepted_request.json",
    ],
)  # fmt: skip
def test_frozen_bytes_that_were_changed_are_told(grown: Disk, place: str) -> None:
    with grown.path(place).open("ab") as stream:
        stream.write(b" ")
    assert places(grown) == {("hash_mismatch", place)}


def test_an_input_that_was_changed_is_told(grown: Disk) -> None:
    grown.path(f"{A}/inputs/artifacts/req.A.json").write_bytes(b"{}")
    assert places(grown) == {("hash_mismatch", f"{A}/inputs/artifacts")}


def test_an_acceptance_speaks_of_the_outcome_that_is_there(grown: Disk) -> None:
    judged: dict[str, Any] = {
        "schema_version": 1, "request_id": "req.A", "work_item_id": "item.A",
        "decision": "accepted", "rationale": "well done", "evidence_reviewed": [],
        "outcome_sha256": trees.sha(grown.read(f"{R}/child_outcomes/req.A.json", 10_000)),
        "decided_by": "user", "decided_at_ms": trees.NOW,
    }  # fmt: skip
    place = f"{R}/parent_acceptance/req.A.json"
    grown.publish(place, trees.as_json(judged))
    assert told(grown) == []
    grown.publish(place, trees.as_json(judged | {"outcome_sha256": trees.sha(b"")}))
    assert places(grown) == {("hash_mismatch", place)}
    grown.move(place, f"{R}/parent_acceptance/req.B.json")
    assert ("layer_corrupt", f"{R}/parent_acceptance/req.B.json") in places(grown)


def test_the_files_of_the_roles_are_those_of_the_contract(grown: Disk) -> None:
    folder = f"{R}/workflows"
    grown.make_folder(f"{folder}/planner")
    grown.publish(f"{folder}/planner/config.yaml", trees.CONFIG)
    grown.publish(f"{folder}/planner/prompt.md", trees.PROMPT)
    assert told(grown) == []
    grown.publish(f"{folder}/planner/config.yaml", b"other")
    grown.remove(f"{folder}/planner/prompt.md")
    grown.make_folder(f"{folder}/unknown")
    assert places(grown) == {
        ("hash_mismatch", f"{folder}/planner/config.yaml"),
        ("layer_corrupt", f"{folder}/planner/prompt.md"),
        ("foreign_file", f"{folder}/unknown"),
    }


# --- topology -------------------------------------------------------------------------------------


def _json(place: str, **fields: object) -> Damage:
    return lambda disk: trees.edit(disk, place, lambda d: d.update(fields))


def _entry(session_id: str, **fields: object) -> Damage:
    def how(index: dict[str, Any]) -> None:
        next(e for e in index["children"] if e["session_id"] == session_id).update(fields)

    return lambda disk: trees.edit(disk, f"{R}/children.json", how)


def _forget(session_id: str) -> Damage:
    def how(index: dict[str, Any]) -> None:
        index["children"] = [e for e in index["children"] if e["session_id"] != session_id]

    return lambda disk: trees.edit(disk, f"{R}/children.json", how)


RECEIPT_A = f"{R}/child_requests/accepted/req.A.receipt.json"
RECEIPT_B = f"{R}/child_requests/accepted/req.B.receipt.json"
TWO_LIVE = {"status": "running", "stop_reason": None}
ENDED = {"status": "stopped", "stop_reason": "user_stop"}


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (_json(f"{R}/state.json", child=None), {f"{R}/children.json", f"{B}/state.json"}),
        (
            _json(f"{R}/state.json", child={"session_id": "X", "request_id": "req.B"}),
            {f"{R}/state.json", f"{R}/children.json", f"{B}/state.json"},
        ),
        (
            _json(f"{R}/state.json", child={"session_id": "B", "request_id": "req.A"}),
            {f"{R}/state.json"},
        ),
        (_json(f"{A}/state.json", **TWO_LIVE), {f"{A}/state.json", f"{R}/children.json"}),
        (_entry("B", **ENDED), {f"{R}/state.json", f"{R}/children.json",
                                f"{R}/child_outcomes/req.B.json"}),
        (_entry("A", **TWO_LIVE), {f"{R}/children.json"}),
        (_entry("A", stop_reason="user_stop"),
         {f"{R}/children.json", f"{R}/child_outcomes/req.A.json"}),
        (_entry("A", outcome_ref=None), {f"{R}/children.json"}),
        (_entry("A", work_item_id="other"),
         {RECEIPT_A, f"{A}/session.json", f"{R}/child_outcomes/req.A.json"}),
        (_forget("A"), {A, RECEIPT_A, f"{R}/child_outcomes/req.A.json", f"{R}/state.json"}),
        (_forget("B"), {B, RECEIPT_B, f"{R}/state.json"}),
        (_json(f"{B}/session.json", request_id="req.other"),
         {f"{R}/state.json", f"{B}/session.json"}),
        (_json(f"{B}/session.json", repository_id="repo2"), {f"{B}/session.json"}),
        (_json(RECEIPT_B, child_session_id="X"), {RECEIPT_B}),
        (lambda disk: disk.remove(RECEIPT_B), {RECEIPT_B}),
        (lambda disk: disk.remove(f"{R}/child_outcomes/req.A.json"),
         {f"{R}/child_outcomes/req.A.json"}),
        (_json(f"{R}/child_outcomes/req.A.json", session_id="B"),
         {f"{R}/child_outcomes/req.A.json"}),
        (_json(f"{R}/child_outcomes/req.A.json", goal_contract_sha256=trees.sha(b"")),
         {f"{R}/child_outcomes/req.A.json"}),
        (_json(f"{R}/state.json", rolled_sessions=["A", "X"]), {f"{R}/state.json"}),
        (lambda disk: shutil.rmtree(disk.path(B)), {f"{R}/state.json", f"{R}/children.json"}),
        (lambda disk: shutil.rmtree(disk.path(A)), {f"{R}/children.json"}),
    ],
)  # fmt: skip
def test_both_sides_of_an_edge_have_to_agree(
    grown: Disk, damage: Damage, expected: set[str]
) -> None:
    damage(grown)
    found = told(grown)
    assert {one.place for one in found if one.code == "topology_broken"} == expected
    wrong = [one for one in found if one.code not in ("topology_broken", "layer_corrupt")]
    assert [one for one in wrong if one.place != f"{A}/inputs/accepted_request.json"] == []


def test_requests_that_are_twins_are_told(grown: Disk) -> None:
    def twice(index: dict[str, Any]) -> None:
        index["children"].append(index["children"][0] | {"request_id": "REQ.a"})

    trees.edit(grown, f"{R}/children.json", twice)
    messages = [one.message for one in told(grown) if one.place == f"{R}/children.json"]
    assert any("req.A and REQ.a" in message for message in messages)
    assert any("A stands in it twice" in message for message in messages)


def test_a_session_that_lies_twice_is_told(grown: Disk) -> None:
    shutil.copytree(grown.path(B1), grown.path(f"{A}/children/B1"))
    found = places(grown)
    assert ("topology_broken", B1) in found
    assert ("layer_corrupt", f"{A}/children/B1/session.json") in found


def test_a_child_that_ended_and_is_not_taken_in_yet_is_no_fault(grown: Disk) -> None:
    below = tree.child(grown, tree.child(grown, tree.root(grown), "B"), "B1")
    trees.change(grown, below, status="stopped", stop_reason="max_turns", task=None)
    assert told(grown) == []


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        (f"{B1}/state.json", {"child": {"session_id": "X", "request_id": "x"}}),
        (f"{B1}/state.json", ENDED),
        (f"{R}/state.json", {"stop_reason": "user_stop"}),
        (f"{A}/state.json", {"stop_reason": None}),
        (f"{A}/state.json", {"session_id": "B"}),
        (f"{A}/session.json", {"depth": 3}),
    ],
)
def test_a_layer_that_contradicts_itself_is_told(
    grown: Disk, place: str, fields: dict[str, object]
) -> None:
    _json(place, **fields)(grown)
    assert ("layer_corrupt", place) in places(grown)


# --- attempts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "damage"),
    [
        (f"{ATTEMPT}/result.json", {"attempt_id": "0009_planner"}),
        (f"{ATTEMPT}/finished.json", {"attempt_id": "0009_planner"}),
        (f"{B1}/state.json", {"task": {
            "attempt_id": "0002_planner", "role": "planner", "iteration": 3,
            "assignment_sha256": trees.sha(b""), "work_item_id": None}}),
    ],
)  # fmt: skip
def test_what_belongs_to_another_attempt_is_told(
    grown: Disk, place: str, damage: dict[str, object]
) -> None:
    _json(place, **damage)(grown)
    assert ("layer_corrupt", place) in places(grown)


@pytest.mark.parametrize(
    ("group", "field", "value"),
    [
        ("identity", "session_id", "X"), ("identity", "root_session_id", "X"),
        ("identity", "parent_session_id", "X"), ("identity", "depth", 1),
        ("identity", "workflow_set", "other"), ("identity", "request_id", "x"),
        ("identity", "attempt_id", "0009_planner"), ("identity", "role", "unknown"),
        ("provenance", "goal_sha256", trees.sha(b"")),
        ("provenance", "goal_contract_sha256", trees.sha(b"")),
        ("provenance", "contract_sha256", trees.sha(b"")),
    ],
)  # fmt: skip
def test_an_assignment_is_of_its_layer(grown: Disk, group: str, field: str, value: object) -> None:
    place = f"{ATTEMPT}/assignment.json"
    trees.edit(grown, place, lambda d: d[group].update({field: value}))
    assert places(grown) == {("layer_corrupt", place)}


def test_a_role_that_was_frozen_from_other_files_is_told(grown: Disk) -> None:
    place = f"{ATTEMPT}/workflow_snapshot/config.yaml"
    grown.publish(place, b"other")
    assignment = f"{ATTEMPT}/assignment.json"
    trees.edit(
        grown, assignment, lambda d: d["provenance"].update(config_sha256=trees.sha(b"other"))
    )
    assert places(grown) == {("hash_mismatch", assignment)}


def test_an_attempt_without_its_folder_or_result_is_told(grown: Disk) -> None:
    grown.remove_tree(f"{B1}/attempts/0002_planner")
    grown.remove(f"{ATTEMPT}/result.json")
    assert places(grown) == {
        ("layer_corrupt", f"{B1}/attempts/0002_planner"),
        ("layer_corrupt", f"{ATTEMPT}/result.json"),
    }


def test_a_seal_holds_for_a_trace_that_is_there(grown: Disk) -> None:
    manifest = trees.as_json({
        "schema_version": 1, "session_id": "R", "attempt_id": "0001_planner", "git_before": None,
        "git_after": None, "files": [], "created_at_ms": trees.NOW,
    })  # fmt: skip
    seal = {
        "schema_version": 1, "attempt_id": "0001_planner", "manifest_sha256": trees.sha(manifest),
        "files": 0, "size_bytes": 0, "sealed_at_ms": trees.NOW,
    }  # fmt: skip
    grown.publish(f"{R}/trace_seals/0001_planner.json", trees.as_json(seal))
    assert told(grown) == []
    place = ".callboard/layers/traces/R/sessions/R/attempts/0001_planner"
    grown.make_folder(place)
    grown.publish(f"{place}/manifest.json", manifest)
    assert told(grown) == []
    grown.publish(f"{place}/manifest.json", manifest + b"\n")
    assert places(grown) == {("hash_mismatch", f"{place}/manifest.json")}


# --- files beside ---------------------------------------------------------------------------------


def test_foreign_and_temporary_files_are_told(grown: Disk) -> None:
    for place in ("README", "children/notes.txt", "attempts/x.json", "child_requests/old"):
        grown.publish(f"{R}/{place}", b"")
    grown.publish(".callboard/layers/notes.txt", b"")
    grown.publish(".callboard/layers/sessions/notes.txt", b"")
    grown.publish(f"{R}/.state.json.0123456789abcdef.tmp", b"")
    grown.make_folder(f"{R}/children/.C.building")
    grown.make_folder(f"{R}/attempts/.0002_planner.building")
    grown.publish(f"{A}/accepted_request.txt", b"")
    assert places(grown) == {
        ("foreign_file", f"{R}/README"),
        ("foreign_file", f"{R}/children/notes.txt"),
        ("foreign_file", f"{R}/attempts/x.json"),
        ("foreign_file", f"{R}/child_requests/old"),
        ("foreign_file", ".callboard/layers/notes.txt"),
        ("foreign_file", ".callboard/layers/sessions/notes.txt"),
        ("foreign_file", f"{A}/accepted_request.txt"),
        ("temporary_file", f"{R}/.state.json.0123456789abcdef.tmp"),
        ("temporary_file", f"{R}/children/.C.building"),
        ("temporary_file", f"{R}/attempts/.0002_planner.building"),
    }


def test_a_folder_that_only_is_called_like_a_layer_is_told_once(grown: Disk) -> None:
    for place in (f"{R}/children/scratch", ".callboard/layers/sessions/old"):
        grown.make_folder(f"{place}/attempts/0001_planner")
    assert places(grown) == {
        ("foreign_file", f"{R}/children/scratch"),
        ("foreign_file", ".callboard/layers/sessions/old"),
    }


@pytest.mark.parametrize("lost", ["session.json", "state.json"])
def test_a_layer_that_lost_a_record_is_still_one(grown: Disk, lost: str) -> None:
    grown.remove(f"{A}/{lost}")
    assert ("layer_corrupt", f"{A}/{lost}") in places(grown)
    assert "foreign_file" not in {code for code, _ in places(grown)}


def test_what_agents_put_in_their_folders_is_their_own(grown: Disk) -> None:
    for place in (
        "project_state/work_items.md", "project_state/.gitkeep", "eval_checks/a.yaml",
        "child_requests/pending/half", "git_receipts/x", "attempts/0001_planner/scratch",
        "control.json", "events.jsonl", "inputs/updates.jsonl",
    ):  # fmt: skip
        grown.publish(f"{R}/{place}", b"\0 anything")
    assert told(grown) == []


def test_links_pipes_and_missing_folders_are_told(grown: Disk) -> None:
    grown.path(f"{R}/children/L").symlink_to("A")
    grown.path(f"{R}/eval_checks/l").symlink_to("/etc/passwd")
    os.mkfifo(grown.path(f"{R}/child_requests/pending/p.json"))
    grown.path(f"{A}/trace_seals").rmdir()
    grown.path(f"{R}/goal.md").unlink()
    grown.path(f"{R}/goal.md").symlink_to("goal_contract.json")
    found = places(grown)
    assert found == {
        ("file_not_regular", f"{R}/children/L"),
        ("file_not_regular", f"{R}/eval_checks/l"),
        ("file_not_regular", f"{R}/child_requests/pending/p.json"),
        ("file_not_regular", f"{R}/goal.md"),
        ("layer_corrupt", f"{R}/goal.md"),
        ("layer_corrupt", f"{A}/trace_seals"),
    }


def test_a_rejected_request_is_kept_as_it_was(grown: Disk) -> None:
    folder = f"{R}/child_requests/rejected"
    receipt: dict[str, Any] = {
        "schema_version": 1, "file_name": "x.json", "request_id": None, "kept_as": "x.json",
        "body_sha256": trees.sha(b"half"), "code": "record_invalid", "reason": "no JSON",
        "attempt_id": None, "decided_at_ms": trees.NOW,
    }  # fmt: skip
    grown.publish(f"{folder}/x.json", b"half")
    grown.publish(f"{folder}/x.receipt.json", trees.as_json(receipt))
    grown.path(f"{folder}/link").symlink_to("/etc/passwd")
    unread = receipt | {"kept_as": "link", "body_sha256": None}
    grown.publish(f"{folder}/link.receipt.json", trees.as_json(unread))
    assert told(grown) == []
    grown.publish(f"{folder}/x.json", b"whole")
    grown.publish(f"{folder}/y.json", b"")
    assert places(grown) == {
        ("hash_mismatch", f"{folder}/x.json"), ("foreign_file", f"{folder}/y.json"),
    }  # fmt: skip


# --- limits and size ------------------------------------------------------------------------------


def test_limits_of_the_root_are_told(disk: Disk) -> None:
    root = trees.start(disk, limits=Limits(max_depth=1, max_children=1, max_descendants=2))
    trees.end(disk, root, trees.grow(disk, root, "A"))
    second = trees.grow(disk, root, "B")
    trees.grow(disk, second, "B1")
    found = {(one.code, one.place, one.message) for one in told(disk)}
    assert found == {
        ("limit_exceeded", f"{R}/session.json", "2 child layers, the root allows 1"),
        ("limit_exceeded", f"{R}/session.json", "3 layers below the root, the root allows 2"),
        ("limit_exceeded", f"{B1}/session.json", "2 levels below the root, the root allows 1"),
    }


def test_only_the_named_tree_is_looked_at(grown: Disk) -> None:
    trees.start(grown, "S")
    _zeros(grown.path(".callboard/layers/sessions/S/state.json"))
    assert told(grown, "R") == []
    assert {one.place for one in told(grown, "S")} == {".callboard/layers/sessions/S/state.json"}
    assert told(grown) == told(grown, "S")


def test_three_hundred_layers_are_checked_quickly(disk: Disk) -> None:
    root = trees.start(disk)
    child = trees.grow(disk, root, "A")
    trees.end(disk, root, child)
    for number in range(300):
        shutil.copytree(disk.path(child.place), disk.path(f"{child.place}x{number}"))
    started = time.process_time()
    found = check(trees.around(disk.root))
    assert time.process_time() - started < 1
    # Each copy says that it is A, and no index knows it.
    assert len([one for one in found if one.code == "layer_corrupt"]) >= 300
