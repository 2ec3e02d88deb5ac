"""The façade: updates told once, what is next and why, stops, and what is refused at the start."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.layers import journal, locking
from callboard.layers.around import of_machine
from callboard.layers.coordinating import Step
from callboard.layers.layers import Layers
from callboard.layers.records.session import Limits
from tests.layers.killing import Killed, killing_where
from tests.layers.machine import Machine, write_set
from tests.repositories import git, repository


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def code_of(act: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(CallboardError) as found:
        act(*arguments, **named)
    return found.value.code


# --- updates --------------------------------------------------------------------------------------

LONG = ("\"quoted\" 'so' `and` $(so)\n\tback\\slash \u00e9\U0001f600 " * 5000)[: 200 * 1024]


def test_an_update_is_told_to_the_next_attempt_exactly_once(machine: Machine) -> None:
    machine.begin()
    node, count = machine.layers.update(LONG)
    assert (node.layer.session.depth, count) == (0, 1)
    machine.end("crash")
    attempt = machine.begin()
    assert attempt.document["updates"] == [LONG]
    # Whoever was told and crashed is told again; whoever succeeded is not.
    machine.end("crash")
    attempt = machine.begin()
    assert attempt.document["updates"] == [LONG]
    machine.layers.update("more")
    machine.layers.control(attempt.assignment, None)
    machine.end()
    assert machine.begin().document["updates"] == ["more"]
    machine.end()
    assert machine.begin().document["updates"] == []


def test_an_update_that_comes_after_a_crash_is_told_later_and_not_never(machine: Machine) -> None:
    machine.layers.update("first")
    frozen = killing_where(lambda step, at: step == "rename" and at.endswith("0001_worker"))
    with pytest.raises(Killed):
        machine.step(frozen)
    machine.layers.update("second")
    assert machine.begin().document["updates"] == ["first"]
    machine.end()
    assert machine.begin().document["updates"] == ["second"]


def test_updates_go_to_the_deepest_layer_that_is_not_over(machine: Machine) -> None:
    machine.descend()
    assert machine.layers.update("for the child")[0].layer.session.depth == 1
    machine.end()
    attempt = machine.begin()
    assert attempt.document["updates"] == ["for the child"]
    machine.meet_goal(attempt)
    machine.end()
    assert machine.state(attempt.layer).phase == "terminal"
    assert machine.layers.update("for the parent")[0].layer.session.depth == 0
    attempt = machine.begin()
    assert attempt.document["updates"] == ["for the parent"]
    machine.meet_goal(attempt)
    machine.end()
    assert code_of(machine.layers.update, "for nobody") == "layer_over"
    assert code_of(machine.layers.stop, "late") == "layer_over"


def test_more_updates_than_one_attempt_is_told_are_told_to_several(machine: Machine) -> None:
    for number in range(3):
        machine.layers.update(f"{number}" * 262_144)
    place = machine.around.disk.path(machine.top.file("inputs", "updates.jsonl"))
    lines = [json.dumps({"at_ms": 1, "text": f"t{number}"}) for number in range(700)]
    with place.open("a") as stream:
        stream.write("".join(f"{line}\n" for line in lines))
    told = []
    for _attempt in range(2):
        told.append(machine.begin().document["updates"])
        machine.end()
    assert [len(one) for one in told] == [500, 203]
    assert [one[-1] for one in told] == ["t496", "t699"]
    assert machine.begin().document["updates"] == []


def test_a_torn_line_spoils_no_other(machine: Machine) -> None:
    place = machine.around.disk.path(machine.top.file("inputs", "updates.jsonl"))
    machine.layers.update("one")
    with place.open("ab") as stream:
        stream.write(b'{"at_ms": 1, "te')
    assert machine.layers.update("two")[1] == 2
    assert machine.begin().document["updates"] == ["one", "two"]
    machine.end()
    assert machine.begin().document["updates"] == []


def test_many_at_once_lose_nothing(machine: Machine) -> None:
    def tell(number: int) -> None:
        for part in range(10):
            Layers(of_machine(machine.root, dict(os.environ))).update(f"{number}.{part}")

    threads = [threading.Thread(target=tell, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = machine.begin().document["updates"]
    assert sorted(told) == sorted(f"{n}.{p}" for n in range(4) for p in range(10))


@pytest.mark.parametrize("text", ["", "a\0b", "\x1b[31m", "\udc80", "x" * 262_145])
def test_what_is_no_plain_text_is_refused(machine: Machine, text: str) -> None:
    assert code_of(machine.layers.update, text) == "text_invalid"
    assert code_of(machine.layers.stop, text) == "text_invalid"
    assert machine.begin().document["updates"] == []


# --- what lies beside layers ----------------------------------------------------------------------


def test_folders_that_only_are_called_like_layers_are_passed_over(machine: Machine) -> None:
    attempt = machine.descend()
    (machine.root / ".callboard" / "layers" / "sessions" / "old").mkdir()
    for layer in (machine.top, attempt.layer):
        (machine.around.disk.path(layer.file("children")) / "scratch" / "attempts").mkdir(
            parents=True
        )
    assert [node.layer.session.depth for node in machine.layers.status()] == [0, 1]
    assert [len(one.accepted) for one in machine.layers.requests()] == [1]
    assert machine.layers.outcomes() == ()
    assert [one.attempt_id for one in machine.layers.traces()] == ["0001_worker"]
    assert machine.layers.next()[0].layer.place == attempt.layer.place
    assert {one.code for one in machine.layers.check()} == {"foreign_file"}
    machine.meet_goal(attempt)
    machine.end()
    assert machine.run().did == "began"


# --- goals ----------------------------------------------------------------------------------------


def test_a_goal_over_the_limit_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path, start=False)
    start = machine.layers.start
    most = "x" * 262_144
    for goal in (most + "x", "é" * 131_073, "", " \n", "a\0", "\udcff"):
        assert code_of(start, goal, workflow_set="all", completion_criteria=["c"]) == "goal_invalid"
    assert code_of(start, "goal", workflow_set="all") == "goal_invalid"
    assert (
        code_of(start, "g", workflow_set="all", completion_criteria=["c"] * 501) == "goal_invalid"
    )
    assert (
        code_of(start, "g", workflow_set="none", completion_criteria=[]) == "workflow_set_missing"
    )
    assert machine.layers.status() == ()
    started = start(most, workflow_set="all", completion_criteria=["c"])
    assert started.goal.goal == most
    assert machine.begin().document["goal"]["goal"] == most
    machine.layers.control(machine.attempt().assignment, None)


def test_limits_that_no_tree_can_have_are_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path, start=False)
    for limits in (
        Limits(max_depth=-1), Limits(max_depth=101), Limits(max_children=0),
        Limits(max_descendants=-1), Limits(max_depth=2**60),
    ):  # fmt: skip
        code = code_of(
            machine.layers.start, "g", workflow_set="all", limits=limits, completion_criteria=["c"]
        )
        assert code == "value_invalid"
    assert machine.layers.status() == ()


def test_where_there_is_no_tree_nothing_is_left_behind(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    layers = Layers(of_machine(root, dict(os.environ)))
    assert code_of(layers.run) == "layer_missing"
    assert git("status", "--porcelain", cwd=root) == ""
    assert not (root / ".callboard").exists()


# --- next and stops -------------------------------------------------------------------------------


def test_next_explains_who_goes_and_why_nobody_does(tmp_path: Path) -> None:
    def sets(root: Path) -> None:
        roles = {"worker": "", "second": "priority: -1", "third": "enabled: false"}
        write_set(root, roles=roles, caps={"max_turns": 1})

    machine = Machine(tmp_path, sets=sets)
    _node, choice = machine.layers.next()
    assert choice is not None
    assert choice.role is not None
    assert choice.role.name == "worker"
    assert [one.eligible for one in choice.verdicts] == [True, True, False]
    assert choice.verdicts[2].reason == "disabled"
    machine.begin()
    assert machine.layers.next()[1] is None
    machine.end()
    _node, choice = machine.layers.next()
    assert choice is not None
    assert choice.role is None
    assert {one.reason for one in choice.verdicts} == {
        "the layer ends (max_turns): 1 attempt of 1 allowed were begun"
    }
    assert machine.run().detail == "max_turns"
    assert machine.layers.next()[1] is None


def test_the_users_stop_ends_the_tree_from_its_deepest_layer_up(machine: Machine) -> None:
    attempt = machine.descend()
    assert machine.layers.stop("enough for 1 day") is True
    assert machine.layers.stop("more than enough") is False
    # The attempt at work is let end.
    assert machine.end().stop_reason is None
    assert machine.run().detail == "user_stop"
    for node in machine.layers.status():
        assert node.state.stop_reason == "user_stop"
        assert node.state.stop_detail == "enough for 1 day"
    assert machine.state(attempt.layer).iteration == 1
    assert machine.layers.check() == ()


def test_a_wish_to_end_at_once_replaces_one_to_end(machine: Machine) -> None:
    assert machine.layers.stop("later") is True
    assert machine.layers.stop("now", at_once=True) is False
    assert machine.layers.stop("later still") is False
    place = machine.around.disk.path(machine.top.file("stop_request.json"))
    found = json.loads(place.read_bytes())
    assert (found["reason"], found["at_once"]) == ("now", True)


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["zeros", "empty"])
@pytest.mark.parametrize(
    "name",
    [
        "session.json", "state.json", "goal_contract.json", "stop_request.json",
        "child_outcomes/*.json", "parent_acceptance/*.json",
        "child_requests/accepted/*.receipt.json",
    ],
)  # fmt: skip
def test_a_damaged_file_is_damage_and_the_one_beside_it_is_no_help(
    machine: Machine, name: str, damage: str
) -> None:
    machine.meet_goal(machine.descend())
    machine.end()
    review = machine.begin()
    [request] = [one.stem for one in review.path("child_outcomes").glob("*.json")]
    machine.layers.accept(request, "rework", "No.", assignment=review.assignment)
    machine.end()
    machine.layers.stop("enough")
    [place] = machine.around.disk.path(machine.top.place).glob(name)
    whole = place.read_bytes()
    place.with_name(f".{place.name}.0123456789abcdef.tmp").write_bytes(whole)
    place.write_bytes(b"\0" * len(whole) if damage == "zeros" else b"")

    def look() -> object:
        return machine.layers.outcomes(), machine.layers.requests(), machine.step()

    assert code_of(look) in ("layer_corrupt", "record_invalid")
    assert place.read_bytes() != whole
    place.write_bytes(whole)
    assert machine.run().detail == "user_stop"


# --- the journal and the lock ---------------------------------------------------------------------


def test_events_are_told_from_a_byte_on(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.begin()
    machine.end()
    place = machine.around.disk.path(machine.top.file("events.jsonl"))
    with place.open("ab") as stream:
        stream.write(b"no json\n[1]\n" + b"[" * 100_000 + b"\n" + b'{"kind": "torn"')
    found = list(machine.layers.events())
    assert [event["kind"] for _at, event in found] == ["attempt_began", "attempt_ended"]
    first, second = (at for at, _event in found)
    assert [event["kind"] for _at, event in machine.layers.events(None, first)] == ["attempt_ended"]
    assert list(machine.layers.events(None, second)) == []
    # However long it has become, a part of it is read at a time.
    monkeypatch.setattr(journal, "MAX_PART_BYTES", first + 3)
    assert [at for at, _event in machine.layers.events()] == [first]


def test_one_coordinator_at_a_time_and_none_through_a_link(machine: Machine) -> None:
    machine.layers.stop("at once")
    with locking.coordinator(machine.around):
        with pytest.raises(CallboardError) as found:
            machine.layers.run()
        assert found.value.code == "coordinator_busy"
        assert found.value.details["pid"] == os.getpid()
    assert machine.layers.run().detail == "user_stop"
    lock = machine.around.disk.path(locking.LOCK)
    lock.unlink()
    lock.symlink_to(machine.root / "README")
    assert code_of(machine.layers.run) == "path_invalid"


def test_a_coordinator_that_lost_its_lock_takes_no_step_more(machine: Machine) -> None:
    lock = machine.around.disk.path(locking.LOCK)
    holder = machine.around.disk.path(locking.HOLDER)
    steps: list[str] = []

    def told(step: Step) -> None:
        steps.append(step.did)
        lock.unlink()
        lock.touch()
        holder.write_text("of another one")

    machine.layers.stop("enough")
    assert code_of(machine.layers.run, told=told) == "coordinator_lost"
    assert steps == ["stopped"]
    assert holder.read_text() == "of another one"


def test_a_damaged_wish_names_the_way_out(machine: Machine) -> None:
    machine.begin()
    place = machine.around.disk.path(machine.top.file("stop_request.json"))
    place.write_text("{")
    machine.end()
    with pytest.raises(CallboardError) as found:
        machine.step()
    assert found.value.code == "layer_corrupt"
    assert found.value.hint.startswith(f"remove {machine.top.file('stop_request.json')};")
    place.unlink()
    assert machine.step().did == "began"


def test_a_stop_at_once_is_on_record_whatever_became_of_the_runner(machine: Machine) -> None:
    attempt = machine.begin()
    (attempt.assignment.parent / "process.json").write_text("{")
    assert machine.layers.stop("enough", at_once=True) is True
    assert json.loads(machine.around.disk.path(machine.top.file("stop_request.json")).read_bytes())
