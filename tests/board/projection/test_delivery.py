"""Delivery barriers: decided once, on proof, and the only thing that frees successors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import UNSET, structs

from callboard import canonical
from callboard.board.protocol import policy as records
from callboard.board.publishing.lifecycle import EvidenceKind
from callboard.errors import CallboardError
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import RECONCILER, refused, work


def completed(*others: Any, document: records.PolicyDocument | None = None) -> Board:
    board = Board([work("a"), *others], document)
    board.grant()
    board.complete("a")
    return board


def test_completion_alone_frees_nobody() -> None:
    board = completed(work("b", after=["a"]))
    assert (board.work("a").state, board.work("a").barrier) == ("completed", "pending")
    assert board.plan().stop.reason == "no_eligible_work"
    board.release(board.group("a"), "terminal_run")
    assert board.plan().winners == []
    board.verify("a")
    assert board.grant() == ["b"]


def test_a_join_waits_for_every_result() -> None:
    board = Board(
        [work("a"), work("b"), work("c"), work("j", after=["a", "b", "c"]), work("k", after=["a"])]
    )
    board.grant(3)
    for count, key in enumerate("abc"):
        assert board.work("j").blocked == 3 - count
        board.settle(key)
    assert board.work("j").blocked == 0
    assert board.grant(5) == ["j", "k"]


def test_a_successor_receives_its_predecessors_results_in_edge_order() -> None:
    board = Board([work("a"), work("b"), work("j", after=["b", "a"])])
    board.grant(2)
    for key in "ab":
        board.complete(key)
        board.verify(key, descriptor={"of": key})
    (assignment,) = board.plan().assignments
    (member,) = assignment.claims
    assert [one.descriptor for one in member.result_refs] == [{"of": "b"}, {"of": "a"}]
    assert [one.result_commit_id for one in member.result_refs] == [
        board.work("b").result_commit_id,
        board.work("a").result_commit_id,
    ]


def test_the_same_result_again_is_no_second_decision() -> None:
    board = completed(work("b", after=["a"]))
    board.verify("a")
    state, ready = board.work("a"), board.work("b")
    board.verify("a")
    assert board.work("a") == state
    assert board.work("b") == ready
    error = refused(lambda: board.verify("a", descriptor={"version": 1, "outputs": [1]}))
    assert error.code == "barrier_closed"


@pytest.mark.parametrize(("one", "other"), [(1, True), (False, 0)])
def test_a_result_that_differs_only_in_the_kind_of_a_value_is_another(
    one: object, other: object
) -> None:
    """1 and true are different JSON, though Python takes them for equal."""
    board = completed()
    board.verify("a", descriptor={"v": one})
    error = refused(lambda: board.verify("a", descriptor={"v": other}))
    assert error.code == "barrier_closed"


def test_a_failure_frees_nobody_and_is_final() -> None:
    board = completed(work("b", after=["a"]))
    board.fail_delivery("a")
    state = board.work("a")
    assert (state.state, state.barrier, state.disposition) == ("completed", "failed", "unknown")
    assert refused(lambda: board.verify("a")).code == "barrier_closed"
    board.fail_delivery("a")
    assert board.work("a") == state
    assert board.plan().stop.reason == "no_eligible_work"
    assert board.projection.counters.pending_delivery == 0
    board.release(board.group("a"), "terminal_run")


def test_a_result_shuts_out_a_failure() -> None:
    board = completed()
    board.verify("a")
    assert refused(lambda: board.fail_delivery("a")).code == "barrier_closed"


def test_a_failure_needs_the_end_of_the_exact_run() -> None:
    board = completed()
    group = board.group("a")
    for changes in (
        {"status": UNSET},
        {"run_id": "5"},
        {"run_attempt": UNSET},
        {"kind": "prelaunch"},
        {"kind": "nonlaunch"},
        {"source": "trusted_activation"},
        {"ref": "b" * 40},
    ):
        evidence = structs.replace(board.evidence(group, "terminal_run", attempts=5), **changes)
        error = refused(board.fail_delivery, "a", evidence=evidence)
        assert error.code == "evidence_invalid", changes
    assert board.work("a").barrier == "pending"


def test_delivery_evidence_names_the_bound_run_or_none() -> None:
    board = completed()
    group = board.group("a")
    wrong = board.evidence(group, "delivery", run_id="5")
    assert refused(lambda: board.verify("a", evidence=wrong)).code == "evidence_invalid"
    silent = board.evidence(group, "delivery", run_id=UNSET, run_attempt=UNSET)
    board.verify("a", evidence=silent)
    assert board.work("a").barrier == "verified"


@pytest.mark.parametrize("kind", ["prelaunch", "nonlaunch", "terminal_run", "reconciliation"])
def test_only_delivery_evidence_verifies(kind: EvidenceKind) -> None:
    board = completed()
    evidence = board.evidence(board.group("a"), kind)
    assert refused(lambda: board.verify("a", evidence=evidence)).code == "evidence_invalid"


@pytest.mark.parametrize("field", ["claim_id", "completion_id", "work_id"])
def test_a_decision_names_the_completion_it_is_about(field: str) -> None:
    board = Board([work("a"), work("b")])
    board.grant(2)
    board.complete("a")
    board.complete("b")
    other = getattr(board.result("b"), field)
    for decide in (board.verify, board.fail_delivery):
        error = refused(decide, "a", **{field: other})
        assert error.code == "claim_mismatch"


def test_sizes_are_bounded_to_the_byte() -> None:
    document = make.policy(limits=make.limits(result_bytes=40))
    board = completed(document=document)
    room = 40 - len(canonical.encode({"k": ""}))
    error = refused(lambda: board.verify("a", descriptor={"k": "x" * (room + 1)}))
    assert (error.code, error.details) == ("result_limit", {"bytes": 41, "limit_bytes": 40})
    board.verify("a", descriptor={"k": "x" * room})


class Timing(NamedTuple):
    """When a delivery is given up, what its evidence says, and what comes of it."""

    after_ms: int
    attempts: int | None
    effects: str | None
    disposition: str
    receipt: str | None
    expected: str


LATE = 300_000
TIMINGS = [
    Timing(0, None, None, "unknown", None, "reconciliation_pending"),
    Timing(LATE - 1, 4, None, "unknown", None, "reconciliation_pending"),
    Timing(LATE - 1, 4, "none", "none", "r", "reconciliation_pending"),
    Timing(0, 5, None, "unknown", None, "allowed"),
    Timing(0, 4096, "unknown", "unknown", None, "allowed"),
    Timing(LATE, None, None, "unknown", None, "allowed"),
    Timing(LATE, 1, "partial", "partial", None, "allowed"),
    Timing(LATE, 1, "none", "none", "r", "allowed"),
    Timing(LATE, 1, "none", "none", None, "evidence_invalid"),
    Timing(LATE, 1, "unknown", "none", "r", "evidence_invalid"),
    Timing(LATE, 1, None, "partial", "r", "evidence_invalid"),
    Timing(LATE, 1, "partial", "unknown", None, "evidence_invalid"),
    Timing(LATE, 1, "none", "partial", "r", "evidence_invalid"),
]


def judge(timing: Timing) -> str:
    board = completed()
    board.pass_ms(timing.after_ms)
    evidence = board.evidence(
        board.group("a"),
        "terminal_run",
        attempts=timing.attempts or UNSET,
        effects=timing.effects or UNSET,
        receipt=timing.receipt or UNSET,
    )
    try:
        board.fail_delivery("a", disposition=timing.disposition, evidence=evidence)
    except CallboardError as error:
        return error.code
    return "allowed" if board.work("a").disposition == timing.disposition else "lost"


@pytest.mark.parametrize("timing", TIMINGS)
def test_a_delivery_is_given_up_after_its_checks_or_its_deadline(timing: Timing) -> None:
    assert judge(timing) == timing.expected


def test_deadline_vectors(vectors: Path | None) -> None:
    found: dict[str, Any] = (
        {"cases": [], "completion_at": 0}
        if vectors is None
        else json.loads((vectors / "delivery-deadlines.json").read_text("utf-8"))
    )
    for case in found["cases"]:
        timing = Timing(
            case["at"] - found["completion_at"],
            case["attempts"] or None,
            case.get("effects"),
            case["disposition"],
            case.get("receipt"),
            case["expected"],
        )
        assert judge(timing) == case["expected"], case["id"]
    assert vectors is None or len(found["cases"]) > 10


def test_the_deadline_counts_from_the_completion_and_not_from_the_release() -> None:
    board = Board([work("a"), work("b")])
    board.grant(2)
    board.complete("a")
    board.pass_ms(LATE - 1)
    board.release(board.group("a"), "terminal_run")
    proof = board.evidence(board.group("a"), "terminal_run")
    assert refused(lambda: board.fail_delivery("a", evidence=proof)).code == (
        "reconciliation_pending"
    )
    board.pass_ms(1)
    board.fail_delivery("a", evidence=proof)
    assert board.work("a").barrier == "failed"


def test_a_foreign_work_without_contract_cannot_be_verified_and_can_be_given_up() -> None:
    board = Board([work("a", payload={"task": "x"})])
    board.grant()
    board.complete("a")
    assert refused(lambda: board.verify("a")).code == "delivery_contract_required"
    board.fail_delivery("a")
    assert board.work("a").barrier == "failed"


def test_decisions_come_from_a_reconciler_only() -> None:
    board = completed()
    for actor in (
        make.PRODUCER,
        make.DISPATCHER,
        make.ADMINISTRATOR,
        board.worker(board.group("a")),
    ):
        error = refused(board.say, "result", [board.result("a")], actor)
        assert error.code == "role_forbidden"
    board.say("result", [board.result("a")], RECONCILER)
