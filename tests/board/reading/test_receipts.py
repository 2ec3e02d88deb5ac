"""Receipts: what was asked, got, limited, and how it stands."""

from __future__ import annotations

import pytest

from callboard.board.publishing.intents import Nothing
from callboard.board.reading.receipts import no_grant, no_write, receipt, request_of
from callboard.board.reading.view import Document
from callboard.errors import CallboardError
from tests.board.reading.staged_board import StagedBoard, node


def of(board: StagedBoard, request_id: str) -> Document:
    view = board.view()
    return receipt(view, request_of(view.projection, request_id))


def test_a_submission_lists_its_nodes_with_where_they_stand(board: StagedBoard) -> None:
    board.submit(node("a"), node("b", "a"))
    found = of(board, "r1")
    assert (found["status"], found["source_commit"]) == ("submitted", None)
    assert [(one["node_key"], one["column"]) for one in found["nodes"]] == [
        ("a", "ready"),
        ("b", "waiting"),
    ]
    assert found["tip"] == found["commit_id"]


def test_a_full_batch_is_granted(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"))
    board.ask(2, 2, "g")
    found = of(board, "g")
    assert (found["status"], found["grant_status"]) == ("granted", "granted")
    assert (found["requested_claims"], found["granted_claims"]) == (2, 2)
    assert (found["requested_dispatches"], found["reserved_dispatches"]) == (2, 2)
    assert found["limiting_reason"] == "claim_budget_reached"
    assert [one["finish"] for one in found["claims"]] == ["open", "open"]
    assert [one["run_id"] for one in found["dispatches"]] == [None, None]


def test_a_partial_batch_tells_what_limited_it_also_after_the_board_moved_on() -> None:
    board = StagedBoard("[work_queue]\nconcurrency = 2\n")
    board.submit(*[node(f"n{number}") for number in range(5)])
    board.ask(3, 3, "g")
    claims = list(board.view().projection.claims)
    dispatch_id = board.launch(claims[0])
    board.finish(claims[0], "completed")
    board.release(dispatch_id)
    found = of(board, "g")
    assert found["status"] == found["grant_status"] == "partial_batch"
    assert (found["limiting_reason"], found["limit"]) == ("capacity_blocked", "logical")
    assert (found["granted_claims"], found["completed_claims"]) == (2, 1)
    assert (found["bound_dispatches"], found["released_dispatches"]) == (1, 1)


@pytest.mark.parametrize(
    ("claims", "dispatches", "max_bytes", "reason"),
    [(3, 1, 49_152, "dispatch_budget_blocked"), (9, 9, 49_152, "no_work")],
)
def test_the_limiting_reason_is_the_planners(
    board: StagedBoard, claims: int, dispatches: int, max_bytes: int, reason: str
) -> None:
    board.submit(*[node(f"n{number}") for number in range(5)])
    board.ask(claims, dispatches, "g", max_bytes)
    assert of(board, "g")["limiting_reason"] == reason


def test_doubt_about_a_launch_is_not_hidden_behind_a_partial_batch(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"))
    board.ask(3, 3, "g")
    first, second = board.view().projection.claims
    board.launch(first)
    board.start(board.dispatch_of(second))
    assert of(board, "g")["status"] == "partial_batch"
    board.doubt(board.dispatch_of(second), "uncertain")
    found = of(board, "g")
    assert (found["status"], found["grant_status"]) == ("launch_uncertain", "partial_batch")
    assert [one["status"] for one in found["dispatches"]] == ["bound", "launch_uncertain"]
    board.doubt(board.dispatch_of(second), "unresolved")
    assert of(board, "g")["status"] == "launch_unresolved"


def test_the_least_advanced_launch_is_the_status_of_a_full_batch(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"))
    board.ask(2, 2, "g")
    first, second = board.view().projection.claims
    first_run = board.launch(first)
    assert of(board, "g")["status"] == "granted"
    second_run = board.launch(second)
    assert of(board, "g")["status"] == "bound"
    for claim_id, dispatch_id in ((first, first_run), (second, second_run)):
        board.finish(claim_id, "completed")
        board.release(dispatch_id)
    assert of(board, "g")["status"] == "released"


def test_other_requests_have_a_short_receipt(board: StagedBoard) -> None:
    board.submit(node("a"))
    board.pause("grants_paused")
    assert of(board, "r2")["status"] == "committed"


def test_no_grant_is_a_receipt_with_its_reason(board: StagedBoard) -> None:
    board.submit(node("a"))
    board.grant()
    outcome = board.ask(1, 1, "g")
    assert isinstance(outcome, Nothing)
    view = board.view()
    asked = view.projection.requests["r2"].dispatch_parameters
    assert asked is not None
    found = no_grant(asked, no_write(view, "g", outcome.reason, outcome.details))
    assert found["grant_status"] == "nothing_granted"
    assert found["status"] == found["limiting_reason"] == "no_work"
    assert found["commit_id"] is None
    with pytest.raises(CallboardError) as refusal:
        of(board, "g")
    assert refusal.value.code == "request_unknown"


def test_a_receipt_names_the_commit_of_each_claim_and_the_tip_it_looked_from(
    board: StagedBoard,
) -> None:
    board.submit(node("a"), node("b"))
    board.ask(2, 2, "g")
    first, second = board.view().projection.claims
    board.launch(first)
    board.start(board.dispatch_of(second))
    found = of(board, "g")
    assert {one["commit_id"] for one in found["claims"]} == {found["commit_id"]}
    assert found["observed_tip"] == found["tip"] == board.view().projection.tip
    assert found["observed_tip"] != found["commit_id"]
    assert found["bound_dispatches"] == 1
    board.bind(board.dispatch_of(second))
    assert of(board, "g")["observed_tip"] != found["observed_tip"]


def test_runs_that_contradict_each_other_are_the_worst_of_all(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"))
    board.ask(3, 3, "g")
    first, second = board.view().projection.claims
    for claim_id in (first, second):
        board.start(board.dispatch_of(claim_id))
        board.doubt(board.dispatch_of(claim_id), "uncertain")
    board.doubt(board.dispatch_of(first), "unresolved")
    board.doubt(board.dispatch_of(second), "uncertain", "run_binding_conflict")
    found = of(board, "g")
    assert (found["status"], found["grant_status"]) == ("run_binding_conflict", "partial_batch")
    assert [one["status"] for one in found["dispatches"]] == [
        "launch_unresolved",
        "run_binding_conflict",
    ]
    assert [one["stage"] for one in found["dispatches"]] == ["unresolved", "uncertain"]
