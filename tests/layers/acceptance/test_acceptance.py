"""What a parent thinks of its child's outcome: once, founded, by who may."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.layers.records.outcomes import Decision
from tests.layers.machine import Attempt, Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def review(machine: Machine) -> Attempt:
    """An attempt of the root, whose one child has met its goal by the request `request`."""
    machine.meet_goal(machine.descend())
    machine.end()
    return machine.begin()


def request_of(review: Attempt) -> str:
    [outcome] = review.path("child_outcomes").glob("*.json")
    return outcome.stem


def refused(machine: Machine, *arguments: Any, **named: Any) -> str:
    with pytest.raises(CallboardError) as found:
        machine.layers.accept(*arguments, **named)
    return found.value.code


def test_once_and_said_again_the_same(machine: Machine, review: Attempt) -> None:
    request = request_of(review)
    first = machine.layers.accept(
        request, "accepted", "It is.", ["repo:/README"], assignment=review.assignment
    )
    assert first.decided_by == review.id
    assert first.work_item_id == "part"
    [evidence] = first.evidence_reviewed
    assert evidence.sha256 == f"sha256:{hashlib.sha256(b'two' + bytes([10])).hexdigest()}"
    outcome = review.path("child_outcomes") / f"{request}.json"
    assert first.outcome_sha256 == f"sha256:{hashlib.sha256(outcome.read_bytes()).hexdigest()}"
    place = review.path("parent_acceptance") / f"{request}.json"
    before = place.read_bytes()
    again = machine.layers.accept(request, "accepted", "Still.", ["repo:/run.sh"])
    assert again == first
    others: list[Decision] = ["rework", "reroute", "blocked"]
    for other in others:
        assert refused(machine, request, other, "No.") == "acceptance_exists"
    assert place.read_bytes() == before
    assert machine.layers.check() == ()


def test_evidence_has_to_be_there(machine: Machine, review: Attempt) -> None:
    request = request_of(review)
    assert refused(machine, request, "accepted", "It is.") == "acceptance_unfounded"
    for ref, code in (
        ("repo:/none", "file_missing"),
        ("repo:/../x", "reference_invalid"),
        ("repo:/link", "reference_out_of_scope"),
        ("session:none:/goal.md", "layer_missing"),
        ("repo:/src", "file_not_regular"),
    ):
        assert refused(machine, request, "accepted", "It is.", [ref]) == code
    assert list(review.path("parent_acceptance").iterdir()) == []
    child = next(node for node in machine.layers.status() if node.layer.session.depth == 1)
    cited = f"session:{child.layer.session.session_id}:/goal.md"
    assert machine.layers.accept(request, "accepted", "It is.", [cited]).decided_by == "user"


def test_no_outcome_no_judgement(machine: Machine, review: Attempt) -> None:
    session = machine.top.session.session_id
    assert refused(machine, "none", "rework", "No.") == "request_missing"
    assert refused(machine, "none", "rework", "No.", session_id=session) == "outcome_missing"
    for name in ("../state", "a/b", "", ".x", "con"):
        assert refused(machine, name, "rework", "No.", session_id=session) == "key_invalid"
    request = request_of(review)
    assert refused(machine, request, "rework", "") == "record_invalid"
    assert refused(machine, request, "perhaps", "No.") == "record_invalid"


def test_a_live_childs_request_has_no_outcome_yet(machine: Machine) -> None:
    attempt = machine.begin()
    request = machine.ask(attempt)
    machine.end()
    machine.begin()
    assert refused(machine, request, "accepted", "It is.", ["repo:/README"]) == "outcome_missing"


def test_an_attempt_that_is_over_judges_nothing(machine: Machine, review: Attempt) -> None:
    machine.end()
    code = refused(machine, request_of(review), "rework", "No.", assignment=review.assignment)
    assert code == "assignment_stale"
