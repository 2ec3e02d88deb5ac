"""What is on record: facts about a child, no path of this machine, events nothing waits for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.layers.records.evaluation import GitSubject
from tests.layers.machine import Attempt, Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# --- completeness -----------------------------------------------------------------------------

NOTHING = {
    "eval_receipt": False, "git_receipt": False, "delivery_receipt": False,
    "usage": True, "traces_sealed": False,
}  # fmt: skip


def _nothing(machine: Machine, attempt: Attempt) -> None:
    machine.leave_result()


def _git(machine: Machine, attempt: Attempt) -> None:
    machine.leave_result(
        subjects=(GitSubject(head="a" * 40, dirty=None), GitSubject(head="b" * 40, dirty=None))
    )


def _delivery(machine: Machine, attempt: Attempt) -> None:
    (attempt.path("delivery_receipts") / "part.json").write_text("{}")
    machine.leave_result()


def _hidden(machine: Machine, attempt: Attempt) -> None:
    (attempt.path("delivery_receipts") / ".part.json").write_text("{}")
    (attempt.path("git_receipts") / "part.txt").write_text("{}")
    (attempt.path("git_receipts") / "link.json").symlink_to(machine.root / "README")
    machine.leave_result()


def _sealed(machine: Machine, attempt: Attempt) -> None:
    seal = attempt.path("session_root") / "trace_seals" / f"{attempt.id}.json"
    seal.write_text("{}")
    machine.leave_result()


def _evaluated(machine: Machine, attempt: Attempt) -> None:
    machine.pass_checks(attempt)
    machine.leave_result()


@pytest.mark.parametrize(
    ("leave", "there"),
    [
        (_nothing, set[str]()),
        (_git, {"git_receipt"}),
        (_delivery, {"delivery_receipt"}),
        (_hidden, set[str]()),
        (_sealed, {"traces_sealed"}),
        (_evaluated, {"eval_receipt"}),
    ],
)
def test_an_outcome_says_which_evidence_is_there(
    machine: Machine, leave: Callable[[Machine, Attempt], None], there: set[str]
) -> None:
    leave(machine, machine.descend())
    assert machine.step().did == "finished"
    machine.layers.stop("enough")
    assert [machine.step().did for _ in range(2)] == ["stopped", "unwound"]
    folder = machine.around.disk.path(machine.top.file("child_outcomes"))
    (file,) = folder.glob("*.json")
    assert json.loads(file.read_bytes())["completeness"] == NOTHING | dict.fromkeys(there, True)


# --- no path of this machine ------------------------------------------------------------------


def test_what_is_on_record_names_no_place_of_this_machine(machine: Machine) -> None:
    """A running attempt is told absolute paths by its assignment; all else is by reference."""
    machine.meet_goal(machine.descend())
    machine.end()
    review = machine.begin()
    (name,) = [path.stem for path in review.path("child_outcomes").glob("*.json")]
    machine.layers.accept(name, "rework", "Not yet.", assignment=review.assignment)
    (review.path("child_requests") / "torn.json").write_text("{")
    machine.end()
    machine.layers.stop("enough")
    machine.run()
    layers = machine.root / ".callboard" / "layers"
    telling = {
        path.name
        for path in layers.rglob("*")
        if path.is_file() and str(machine.root).encode() in path.read_bytes()
    }
    assert telling == {"assignment.json", "prompt.md"}


# --- events -----------------------------------------------------------------------------------


@pytest.mark.parametrize("made", ["folder", "link", "shut"])
def test_what_hinders_the_events_hinders_nothing_else(machine: Machine, made: str) -> None:
    machine.begin()
    events = machine.around.disk.path(machine.top.file("events.jsonl"))
    events.unlink()
    if made == "folder":
        events.mkdir()
    elif made == "link":
        events.symlink_to(machine.root / "outside")
    else:
        events.write_text("")
        events.chmod(0o444)
    machine.end()
    machine.meet_goal(machine.begin())
    assert machine.end().status == "goal_met"
    assert machine.run().detail == "goal_met"
    assert not (machine.root / "outside").exists()


def test_events_that_are_gone_change_no_decision(machine: Machine) -> None:
    machine.meet_goal(machine.descend())
    machine.end()
    for path in (machine.root / ".callboard").rglob("events.jsonl"):
        path.unlink()
    assert (machine.step().did, machine.step().did) == ("unwound", "began")
