"""`callboard layers …` on a tree of two levels that has run: what was asked for, what came of it,
and who may say what afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.layers.whole import played
from tests.surfaces.cli.layered import Layered


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Layered:
    """A parent whose one item was delivered by a child, accepted, and found good."""
    whole = played.prepare(tmp_path_factory.mktemp("whole"))
    done = whole.run(count=False)
    assert (done.returncode, done.stdout) == (0, "over goal_met\n"), done.stderr
    return Layered(whole.root)


def layers(here: Layered) -> tuple[dict[str, Any], dict[str, Any]]:
    parent, child = here.ask("status")["layers"]
    return parent, child


def test_status_has_parents_first_and_children_indented(here: Layered) -> None:
    parent, child = layers(here)
    assert (parent["depth"], child["depth"]) == (0, 1)
    assert child["parent_session_id"] == child["root_session_id"] == parent["session_id"]
    assert (child["request_id"], child["work_item_id"]) == ("part-r1", "part")
    assert {one["state"]["status"] for one in (parent, child)} == {"goal_met"}
    assert parent["usage"]["attempts"] == 4
    lines = here.call("status").stdout.splitlines()
    assert lines[0] == f"{parent['session_id']}  over: goal_met"
    assert lines[1] == "  Have the part done"
    assert lines[4] == f"  {child['session_id']}  over: goal_met"
    assert lines[5] == "    Write part.txt"
    assert lines[6].startswith("    below · 1 attempt · item part, request part-r1 · since ")


def test_a_run_of_a_tree_that_is_over_says_so_with_0(here: Layered) -> None:
    again = here.call("run")
    parent, _child = layers(here)
    assert (again.status, again.stdout) == (0, f"{parent['session_id']}  is over: goal_met\n")


def test_requests_and_outcomes_tell_what_became_of_them(here: Layered) -> None:
    parent, child = layers(here)
    (asked,) = here.ask("requests")["requests"]
    assert (asked["session_id"], asked["pending"], asked["rejected"]) == (
        *(parent["session_id"], [], []),
    )
    (made,) = asked["accepted"]
    assert (made["request_id"], made["child_session_id"]) == ("part-r1", child["session_id"])
    assert here.call("requests").stdout.splitlines() == [
        parent["session_id"],
        f"  accepted  part-r1 -> {child['session_id']}",
    ]

    (came,) = here.ask("outcomes")["outcomes"]
    assert came["outcome"]["session_id"] == child["session_id"]
    assert came["outcome"]["stop_reason"] == "goal_met"
    assert (came["acceptance"]["decision"], came["acceptance"]["decided_by"]) == (
        *("accepted", "0003_planner"),
    )
    assert here.call("outcomes").stdout.splitlines() == [
        "part-r1  goal_met  accepted by 0003_planner",
        "  It is done.",
    ]


def test_a_judgement_stands_once(here: Layered) -> None:
    parent, _child = layers(here)
    for words in ((), ("--session", parent["session_id"])):
        error = here.call(
            "accept", "part-r1", "rework", "--rationale", "On second thoughts", *words, "--json"
        ).error
        assert error["code"] == "acceptance_exists"
    assert here.ask("outcomes")["outcomes"][0]["acceptance"]["decision"] == "accepted"


def test_an_attempt_that_is_over_says_nothing_any_more(here: Layered, tmp_path: Path) -> None:
    parent, _child = layers(here)
    assignment = (
        here.layer(parent["session_id"]) / "attempts" / "0002_dispatcher" / "assignment.json"
    )
    for words in (
        ("dispatch", "part"),
        ("evaluate",),
        ("control", "goal_met", "--receipt", "session:/eval_receipts/x.json"),
        ("accept", "part-r1", "accepted", "--rationale", "x"),
    ):
        error = here.call(*words, "--assignment", assignment, "--json").error
        assert error["code"] == "assignment_stale", words
    copied = tmp_path / "assignment.json"
    copied.write_bytes(assignment.read_bytes())
    error = here.call("dispatch", "part", "--assignment", copied, "--json").error
    assert error["code"] == "assignment_invalid"
    copied.write_text(json.dumps({"schema_version": 1}))
    error = here.call("dispatch", "part", "--assignment", copied, "--json").error
    assert error["code"] == "record_invalid"


def test_events_are_those_of_the_layer_that_is_named(here: Layered) -> None:
    parent, child = layers(here)
    for one in (parent, child):
        found = here.ask("events", "--session", one["session_id"])["events"]
        assert {event["session_id"] for event in found} == {one["session_id"]}
    deepest = here.ask("events")["events"]
    assert {event["session_id"] for event in deepest} == {parent["session_id"]}


def test_traces_of_children_are_below_those_of_their_parent(here: Layered) -> None:
    parent, child = layers(here)
    whole = here.ask("traces", "list", "--session", parent["session_id"])["traces"]
    assert [(one["session_id"], one["attempt_id"]) for one in whole] == [
        (parent["session_id"], "0001_planner"),
        (parent["session_id"], "0002_dispatcher"),
        (parent["session_id"], "0003_planner"),
        (child["session_id"], "0001_worker"),
    ]
    below = here.ask("traces", "list", "--session", child["session_id"])["traces"]
    assert [one["attempt_id"] for one in below] == ["0001_worker"]
