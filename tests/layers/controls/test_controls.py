"""What an attempt's last word comes to: followed, or kept, counted, and never followed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.layers.records.control import AttemptedRoute
from callboard.layers.records.state import State
from tests.layers.killing import Killed, killing, killing_where
from tests.layers.machine import CHECK, Attempt, Machine, write_set
from tests.repositories import git

ROLES = {
    "worker": "priority: 1\nrun_after_successes: {role: helper, count: 1}",
    "helper": "run_on_start: true",
}


def sets(root: Path) -> None:
    write_set(root, roles=ROLES)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def control_of(attempt: Attempt, **fields: Any) -> dict[str, Any]:
    """A control of the attempt as its own file would have it."""
    identity = attempt.document["identity"]
    return {
        "schema_version": 2,
        "control_id": "control_1",
        "state": "stopped",
        "stop_reason": "goal_met",
        "producer": {name: identity[name] for name in ("session_id", "role", "attempt_id")},
        "created_at_ms": 1,
        "eval_receipt_ref": None,
        "summary": None,
        "blocker": None,
        "attempted_routes": [],
    } | fields


def leave(attempt: Attempt, value: object) -> bytes:
    data = json.dumps(value).encode()
    attempt.path("control").write_bytes(data)
    return data


def rejections(attempt: Attempt) -> dict[str, tuple[str, str | None]]:
    """What was put away in the attempt's layer: the code and the attempt of each receipt."""
    folder = attempt.path("session_root") / "control_rejected"
    found = {}
    for path in sorted(folder.glob("*.receipt.json")):
        receipt = json.loads(path.read_bytes())
        found[path.name.removesuffix(".receipt.json")] = receipt["code"], receipt["attempt_id"]
    return found


# --- what may be said -----------------------------------------------------------------------------


def test_a_goal_that_is_met_ends_the_layer_and_what_was_said_is_kept(machine: Machine) -> None:
    attempt = machine.begin()
    machine.meet_goal(attempt)
    said = attempt.path("control").read_bytes()
    state = machine.end()
    assert (state.status, state.stop_reason, state.stop_detail) == (
        "goal_met",
        "goal_met",
        "It is.",
    )
    assert state.phase == "terminal"
    assert not attempt.path("control").exists()
    assert (attempt.path("attempt_root") / "control.json").read_bytes() == said
    assert state.controls_seen == (f"sha256:{hashlib.sha256(said).hexdigest()}",)
    assert machine.layers.check() == ()


def test_running_says_that_the_layer_goes_on(machine: Machine) -> None:
    attempt = machine.begin()
    machine.layers.control(attempt.assignment, None)
    state = machine.end()
    assert (state.status, state.invalid_controls) == ("running", 0)
    finished = json.loads((attempt.path("attempt_root") / "finished.json").read_bytes())
    assert finished["control"] == "running"


def test_a_blocker_ends_the_layer_with_routes_and_evidence(machine: Machine) -> None:
    attempt = machine.begin()
    (machine.root / "tried.txt").write_text("no key\n")
    machine.layers.control(
        attempt.assignment, "unresolvable_error", blocker="credential", summary="There is no key.",
        attempted_routes=[
            AttemptedRoute(route="asked", outcome="refused", evidence_ref="repo:/tried.txt")
        ],
    )  # fmt: skip
    state = machine.end()
    assert (state.status, state.stop_detail) == ("unresolvable_error", "There is no key.")


def test_an_attempt_speaks_once(machine: Machine) -> None:
    attempt = machine.begin()
    machine.layers.control(attempt.assignment, None)
    with pytest.raises(CallboardError) as found:
        machine.layers.control(attempt.assignment, None)
    assert found.value.code == "control_exists"
    machine.end()
    # And the next one again.
    machine.layers.control(machine.begin().assignment, None)


# --- what may not be said -------------------------------------------------------------------------

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"schema_version": 1}, "record_invalid"),
    "a number as an id": ({"control_id": 7}, "record_invalid"),
    "state": ({"state": "paused"}, "record_invalid"),
    "reason": ({"stop_reason": "done"}, "record_invalid"),
    "time": ({"created_at_ms": -1}, "record_invalid"),
    "blocker": ({"blocker": "tired"}, "record_invalid"),
    "routes": ({"attempted_routes": {}}, "record_invalid"),
    "extra": ({"surprise": 1}, "record_invalid"),
    "summary": ({"summary": ""}, "record_invalid"),
    "ref": ({"eval_receipt_ref": "x"}, "record_invalid"),
    "no receipt": ({}, "control_unfounded"),
    "stopped without a reason": ({"stop_reason": None}, "control_contradiction"),
    "running with a reason": ({"state": "running"}, "control_contradiction"),
    "a met goal with a blocker": ({"blocker": "billable"}, "control_contradiction"),
    "no such receipt": (
        {"eval_receipt_ref": "session:/eval_receipts/none.json"}, "eval_receipt_unknown",
    ),
    "a receipt elsewhere": ({"eval_receipt_ref": "repo:/README"}, "eval_receipt_unknown"),
    "a reference with steps up": (
        {"eval_receipt_ref": "session:/eval_receipts/../state.json"}, "eval_receipt_unknown",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_kept_counted_and_not_followed(machine: Machine, name: str) -> None:
    fields, code = WRONG[name]
    attempt = machine.begin()
    data = leave(attempt, control_of(attempt, **fields))
    state = machine.end()
    is_goal_check = code.startswith("eval_")
    assert state.status == "running"
    assert state.invalid_controls == (0 if is_goal_check else 1)
    assert state.failed_goal_checks == (1 if is_goal_check else 0)
    assert rejections(attempt) == {attempt.id: (code, attempt.id)}
    kept = attempt.path("session_root") / "control_rejected" / f"{attempt.id}.json"
    assert kept.read_bytes() == data
    assert not attempt.path("control").exists()
    assert machine.layers.check() == ()
    # It stands in nobody's way.
    machine.meet_goal(machine.begin())
    assert machine.end().status == "goal_met"


@pytest.mark.parametrize(
    "field", ["schema_version", "control_id", "state", "producer", "created_at_ms"]
)
def test_no_field_may_be_missing(machine: Machine, field: str) -> None:
    attempt = machine.begin()
    value = control_of(attempt)
    del value[field]
    leave(attempt, value)
    assert machine.end().invalid_controls == 1
    assert rejections(attempt) == {attempt.id: ("record_invalid", attempt.id)}


@pytest.mark.parametrize("field", ["session_id", "role", "attempt_id"])
def test_nobody_else_may_speak(machine: Machine, field: str) -> None:
    machine.begin()
    machine.end()
    attempt = machine.begin()
    value = control_of(attempt, eval_receipt_ref=machine.pass_checks(attempt))
    value["producer"][field] = {"attempt_id": "0001_worker", "role": "other"}.get(field, "other")
    leave(attempt, value)
    state = machine.end()
    assert (state.status, state.invalid_controls) == ("running", 1)
    assert rejections(attempt) == {attempt.id: ("control_producer", attempt.id)}


def test_the_layer_alone_decides_who_may_say_what(tmp_path: Path) -> None:
    machine = Machine(tmp_path, sets=sets)
    attempt = machine.begin()
    assert attempt.document["identity"]["role"] == "helper"
    (attempt.path("eval_checks") / "done.yaml").write_text(CHECK)
    for act in (
        lambda: machine.layers.evaluate(attempt.assignment),
        lambda: machine.layers.accept("r1", "accepted", "it is", assignment=attempt.assignment),
        lambda: machine.layers.dispatch(attempt.assignment, "part"),
    ):
        with pytest.raises(CallboardError) as found:
            act()
        assert found.value.code == "role_not_allowed"
    for reason in ("goal_met", "unresolvable_error"):
        with pytest.raises(CallboardError) as found:
            machine.layers.control(attempt.assignment, reason)
        assert found.value.code == "control_role"
    leave(attempt, control_of(attempt))
    assert machine.end().invalid_controls == 1
    assert rejections(attempt) == {attempt.id: ("control_role", attempt.id)}


@pytest.mark.parametrize("classification", ["crash", "transient", "deterministic", "unknown"])
def test_an_attempt_that_did_not_end_well_says_nothing(
    machine: Machine, classification: Any
) -> None:
    attempt = machine.begin()
    machine.meet_goal(attempt)
    state = machine.end(classification)
    assert (state.status, state.invalid_controls) == ("running", 1)
    assert rejections(attempt) == {attempt.id: ("control_of_failure", attempt.id)}


@pytest.mark.parametrize(
    "fields",
    [
        {"blocker": None},
        {"summary": None},
        {"attempted_routes": []},
        {"attempted_routes": [{"route": "a", "outcome": "b", "evidence_ref": None}]},
        {"attempted_routes": [{"route": "a", "outcome": "b", "evidence_ref": "repo:/none.txt"}]},
        {"attempted_routes": [{"route": "a", "outcome": "b", "evidence_ref": "repo:/../x"}]},
        {"attempted_routes": [{"route": "a", "outcome": "b", "evidence_ref": "repo:/link"}]},
        {"attempted_routes": [{"route": "a", "outcome": "b", "evidence_ref": "session:z:/x"}]},
    ],
)
def test_a_blocker_without_proof_is_none(machine: Machine, fields: dict[str, Any]) -> None:
    attempt = machine.begin()
    whole = {
        "stop_reason": "unresolvable_error", "blocker": "human_only", "summary": "It cannot be.",
        "attempted_routes": [{"route": "a", "outcome": "b", "evidence_ref": "repo:/README"}],
    }  # fmt: skip
    leave(attempt, control_of(attempt, **whole | fields))
    assert machine.end().invalid_controls == 1
    assert rejections(attempt) == {attempt.id: ("control_unfounded", attempt.id)}
    attempt = machine.begin()
    leave(attempt, control_of(attempt, **whole))
    assert machine.end().status == "unresolvable_error"


# --- what is no file ------------------------------------------------------------------------------


def as_link(path: Path) -> None:
    path.symlink_to(path.parent / "state.json")


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_folder(path: Path) -> None:
    path.mkdir()
    (path / "control.json").write_text("{}")


def as_large(path: Path) -> None:
    path.write_bytes(b"{" + b" " * 10_000_000 + b"}")


def as_torn(path: Path) -> None:
    path.write_bytes(b'{"schema_version": 2, "control_id": "c')


def as_zeros(path: Path) -> None:
    path.write_bytes(b"\0" * 300)


def as_empty(path: Path) -> None:
    path.write_bytes(b"")


STRANGE = [as_link, as_pipe, as_folder, as_large, as_torn, as_zeros, as_empty]


def facts(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_ino, found.st_size


@pytest.mark.parametrize("make", STRANGE)
def test_whatever_it_is_it_is_put_away_as_it_is(
    machine: Machine, make: Callable[[Path], None]
) -> None:
    for number in (1, 2):
        attempt = machine.begin()
        make(attempt.path("control"))
        before = facts(attempt.path("control"))
        assert machine.end().invalid_controls == number
        kept = attempt.path("session_root") / "control_rejected" / f"{attempt.id}.json"
        assert facts(kept) == before
        assert not os.path.lexists(attempt.path("control"))
    machine.meet_goal(machine.begin())
    assert machine.end().status == "goal_met"


# --- when it is left ------------------------------------------------------------------------------


def test_what_is_left_between_attempts_is_put_away_and_counted_once(machine: Machine) -> None:
    attempt = machine.begin()
    machine.end()
    for number, make in enumerate([as_torn, as_pipe], start=1):
        make(attempt.path("control"))
        step = machine.step()
        assert step.did == "repaired"
        state = machine.state(attempt.layer)
        assert state.invalid_controls == number
        assert not os.path.lexists(attempt.path("control"))
    assert [who for _code, who in rejections(attempt).values()] == [None, None]
    # A goal that was met a moment too late is as little followed.
    attempt = machine.begin()
    machine.meet_goal(attempt)
    late = attempt.path("control").read_bytes()
    attempt.path("control").unlink()
    machine.end()
    attempt.path("control").write_bytes(late)
    assert machine.step().did == "repaired"
    state = machine.state(attempt.layer)
    assert (state.status, state.invalid_controls) == ("running", 3)
    assert "control_producer" in {code for code, _who in rejections(attempt).values()}


def test_what_was_followed_is_judged_no_more(machine: Machine) -> None:
    attempt = machine.begin()
    data = leave(attempt, control_of(attempt, state="running", stop_reason=None))
    machine.end()
    # As after a crash that came before it was removed: between attempts, and in the next one.
    attempt.path("control").write_bytes(data)
    attempt = machine.begin()
    assert not attempt.path("control").exists()
    attempt.path("control").write_bytes(data)
    state = machine.end()
    assert (state.invalid_controls, len(state.controls_seen)) == (0, 1)
    assert not attempt.path("control").exists()


def test_the_same_nonsense_counts_each_time_that_it_is_left(machine: Machine) -> None:
    for number in (1, 2, 3):
        leave(machine.begin(), {"stop": "please"})
        assert machine.end().invalid_controls == number
    assert machine.run().did == "over"
    assert machine.state(machine.top).stop_reason == "invalid_control"


# --- crashes --------------------------------------------------------------------------------------


def crashed_at_each_effect(machine: Machine, act: Callable[[], None]) -> list[State]:
    """The states that a step comes to which was killed after each effect, and gone on from."""
    folder = machine.root / ".callboard" / "layers"
    saved = machine.root.parent / "saved"
    shutil.copytree(folder, saved, symlinks=True)
    ends = []
    number = 0
    while True:
        number += 1
        layer = machine.deepest()[0]
        try:
            machine.step(killing(number))
        except Killed:
            act()
            while machine.state(layer).task is not None:
                machine.step()
            machine.run()
            ends.append(machine.state(layer))
            assert machine.layers.check() == (), number
            shutil.rmtree(folder)
            shutil.copytree(saved, folder, symlinks=True)
        else:
            return ends


@pytest.mark.parametrize("make", [as_torn, as_folder, None])
def test_killed_at_any_step_a_control_counts_once(
    machine: Machine, make: Callable[[Path], None] | None
) -> None:
    attempt = machine.begin()
    if make is None:
        leave(attempt, control_of(attempt))
    else:
        make(attempt.path("control"))
    machine.leave_result()
    ends = crashed_at_each_effect(machine, lambda: None)
    assert len(ends) > 5
    assert {one.invalid_controls for one in ends} == {1}
    assert {one.own_usage.attempts for one in ends} == {1}
    assert {one.roles["worker"].runs for one in ends} == {1}


def test_killed_at_any_step_a_met_goal_ends_the_layer(machine: Machine) -> None:
    machine.meet_goal(machine.begin())
    machine.leave_result()
    ends = crashed_at_each_effect(machine, lambda: None)
    assert len(ends) > 5
    assert {(one.status, one.invalid_controls) for one in ends} == {("goal_met", 0)}


def test_where_the_repository_moves_after_a_crash_the_record_says_what_was_decided(
    machine: Machine,
) -> None:
    attempt = machine.begin()
    machine.meet_goal(attempt)
    machine.leave_result()

    with pytest.raises(Killed):
        machine.step(killing_where(lambda _step, place: place.endswith("finished.json")))
    (machine.root / "later.txt").write_text("more\n")
    assert machine.step().did == "finished"
    state = machine.state(attempt.layer)
    finished = json.loads((attempt.path("attempt_root") / "finished.json").read_bytes())
    assert (state.status, state.failed_goal_checks, finished["control"]) == (
        "running", 1, "rejected",
    )  # fmt: skip


# --- receipts that do not hold --------------------------------------------------------------------


def commit(machine: Machine) -> None:
    git("add", "-A", cwd=machine.root)
    git("commit", "-q", "-m", "more", cwd=machine.root)


def change_tree(machine: Machine) -> None:
    (machine.root / "README").write_text("three\n")


def add_file(machine: Machine) -> None:
    (machine.root / "new.txt").write_text("new\n")


def edit_check(machine: Machine) -> None:
    path = machine.around.disk.path(machine.top.file("eval_checks", "done.yaml"))
    path.write_text(path.read_text() + "\n")


def add_check(machine: Machine) -> None:
    path = machine.around.disk.path(machine.top.file("eval_checks", "more.yaml"))
    path.write_text(CHECK.replace("check_id: done", "check_id: more"))


def remove_check(machine: Machine) -> None:
    machine.around.disk.path(machine.top.file("eval_checks", "done.yaml")).unlink()


def break_check(machine: Machine) -> None:
    machine.around.disk.path(machine.top.file("eval_checks", "done.yaml")).write_text("kind: [")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (commit, "eval_subject_changed"),
        (change_tree, "eval_subject_changed"),
        (add_file, "eval_subject_changed"),
        (edit_check, "eval_checks_changed"),
        (add_check, "eval_checks_changed"),
        (remove_check, "eval_checks_changed"),
        (break_check, "eval_checks_changed"),
    ],
)
def test_a_receipt_of_another_state_shows_nothing(
    machine: Machine, change: Callable[[Machine], None], code: str
) -> None:
    attempt = machine.begin()
    ref = machine.pass_checks(attempt)
    change(machine)
    with pytest.raises(CallboardError) as found:
        machine.layers.control(attempt.assignment, "goal_met", eval_receipt_ref=ref)
    assert found.value.code == code
    leave(attempt, control_of(attempt, eval_receipt_ref=ref))
    state = machine.end()
    assert (state.failed_goal_checks, state.invalid_controls) == (1, 0)
    assert rejections(attempt) == {attempt.id: (code, attempt.id)}


def test_a_receipt_of_an_earlier_attempt_holds_as_long_as_nothing_changes(machine: Machine) -> None:
    ref = machine.pass_checks(machine.begin())
    machine.end()
    attempt = machine.begin()
    machine.layers.control(attempt.assignment, "goal_met", eval_receipt_ref=ref)
    assert machine.end().status == "goal_met"


def test_a_receipt_that_says_fail_shows_nothing(machine: Machine) -> None:
    attempt = machine.begin()
    (attempt.path("eval_checks") / "done.yaml").write_text(CHECK)
    receipt = machine.layers.evaluate(attempt.assignment)
    assert receipt.verdict == "fail"
    ref = f"session:/eval_receipts/{receipt.receipt_id}.json"
    with pytest.raises(CallboardError) as found:
        machine.layers.control(attempt.assignment, "goal_met", eval_receipt_ref=ref)
    assert found.value.code == "eval_failed"


FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "another layer's": ({"session_id": "other"}, "eval_goal_other"),
    "another goal's": ({"goal_contract_sha256": "sha256:" + "0" * 64}, "eval_goal_other"),
    "a role that may not": ({"role": "helper"}, "eval_receipt_unknown"),
    "no attempt of this layer": ({"attempt_id": "0009_worker"}, "eval_receipt_unknown"),
    "another name": ({"receipt_id": "other"}, "eval_receipt_unknown"),
    "no checks": ({"checks": []}, "eval_checks_changed"),
    "no record": ({"surprise": 1}, "eval_receipt_unknown"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_receipt_has_to_be_one_of_this_layers_own(tmp_path: Path, name: str) -> None:
    machine = Machine(tmp_path, sets=sets)
    machine.begin()
    machine.end()
    fields, code = FORGED[name]
    attempt = machine.begin()
    ref = machine.pass_checks(attempt)
    path = attempt.path("eval_receipts") / ref.rpartition("/")[2]
    path.write_text(json.dumps(json.loads(path.read_bytes()) | fields))
    with pytest.raises(CallboardError) as found:
        machine.layers.control(attempt.assignment, "goal_met", eval_receipt_ref=ref)
    assert found.value.code == code


def test_a_receipt_is_of_a_role_that_may_run_the_checks(tmp_path: Path) -> None:
    """The attempt that is named is real, and so is its role."""
    machine = Machine(tmp_path, sets=sets)
    helper = machine.begin()
    assert helper.document["identity"]["role"] == "helper"
    machine.end()
    attempt = machine.begin()
    ref = machine.pass_checks(attempt)
    path = attempt.path("eval_receipts") / ref.rpartition("/")[2]
    forged = {"role": "helper", "attempt_id": helper.id}
    path.write_text(json.dumps(json.loads(path.read_bytes()) | forged))
    with pytest.raises(CallboardError) as found:
        machine.layers.control(attempt.assignment, "goal_met", eval_receipt_ref=ref)
    assert found.value.code == "eval_receipt_unknown"
    assert "the role helper may not run the checks" in found.value.message


def test_a_parents_receipt_is_not_its_childs(machine: Machine) -> None:
    attempt = machine.begin()
    machine.pass_checks(attempt)
    machine.ask(attempt)
    machine.end()
    child = machine.begin()
    name = next(path.name for path in attempt.path("eval_receipts").iterdir())
    (child.path("eval_checks") / "done.yaml").write_text(CHECK)
    for ref in (f"parent:/eval_receipts/{name}", f"root:/eval_receipts/{name}"):
        with pytest.raises(CallboardError) as found:
            machine.layers.control(child.assignment, "goal_met", eval_receipt_ref=ref)
        assert found.value.code == "eval_receipt_unknown"
    copy = child.path("eval_receipts") / name
    copy.write_bytes((attempt.path("eval_receipts") / name).read_bytes())
    with pytest.raises(CallboardError) as found:
        machine.layers.control(
            child.assignment, "goal_met", eval_receipt_ref=f"session:/eval_receipts/{name}"
        )
    assert found.value.code == "eval_goal_other"


def test_the_word_of_an_attempt_that_is_over_is_refused(machine: Machine) -> None:
    attempt = machine.begin()
    machine.end()
    with pytest.raises(CallboardError) as found:
        machine.layers.control(attempt.assignment, None)
    assert found.value.code == "assignment_stale"
