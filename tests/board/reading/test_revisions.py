"""A campaign that is revised while it runs: what was admitted stays, what is new competes.

Each row of the table in the page on revisions, on the ledger alone.
"""

from __future__ import annotations

import pytest

from callboard.board.projection.document import work_document
from callboard.board.publishing.intents import Nothing
from callboard.board.reading.columns import Columns
from callboard.canonical import encode_trusted
from callboard.errors import CallboardError
from tests.board.reading.staged_board import StagedBoard, node

THREE = ["r1/prepare", "r1/analyze", "r1/report"]
KEYED = "[work_queue.accounting_weights]\nteam = 1\nother = 1\n"


def first(board: StagedBoard) -> None:
    board.submit(node(THREE[0]), node(THREE[1], THREE[0]), node(THREE[2], THREE[1]))


def record(board: StagedBoard, key: str) -> bytes:
    """The node's record as it was admitted."""
    return encode_trusted(board.view().projection.works[board.work_id(key)].work)


def standing(board: StagedBoard, key: str) -> tuple[str, str]:
    view = board.view()
    found = Columns(view).place(view.projection.works[board.work_id(key)])
    return found.column, found.reason


def test_a_new_revision_leaves_plans_assignments_and_positions_as_they_are(
    board: StagedBoard,
) -> None:
    first(board)
    (claim_id,) = board.grant()
    dispatch_id = board.launch(claim_id)
    before = board.view().projection
    records = {key: record(board, key) for key in THREE}
    places = {key: before.works[board.work_id(key)].place for key in THREE}
    assignment = encode_trusted(before.dispatches[dispatch_id].assignment)
    clocks = before.clocks["default"]
    board.submit(node("r2/prepare"), node("r2/analyze", "r2/prepare"))
    after = board.view().projection
    assert {key: record(board, key) for key in THREE} == records
    assert {key: after.works[board.work_id(key)].place for key in THREE} == places
    assert encode_trusted(after.dispatches[dispatch_id].assignment) == assignment
    # A revision label is no entitlement: nobody's share and nobody's debt moved.
    assert after.clocks["default"] == clocks
    newest = [after.works[board.work_id(key)].place for key in ("r2/prepare", "r2/analyze")]
    assert min(newest) > max(places.values())


def test_a_revision_inherits_the_debt_of_its_key() -> None:
    board = StagedBoard(KEYED)
    board.submit(*(node(f"r1/{number}", fairness_key="team") for number in range(3)))
    for number in range(3):
        board.do(f"r1/{number}")
    passes = board.view().projection.clocks["default"].keys[3].passes
    board.submit(node("r2/0", fairness_key="team"), node("else", fairness_key="other"))
    assert board.view().projection.clocks["default"].keys[3].passes == passes
    board.do("else")
    board.do("r2/0")


def test_old_work_that_is_open_ends_when_somebody_says_so(board: StagedBoard) -> None:
    """Available or blocked: cancelled one by one, also what waits for it."""
    first(board)
    board.submit(node("r2/prepare"))
    board.cancel(THREE[0], "superseded")
    assert standing(board, THREE[1]) == ("stuck", "dependency_failed")
    assert standing(board, THREE[2]) == ("stuck", "dependency_failed")
    for key in THREE[1:]:
        board.cancel(key, "superseded")
    assert standing(board, THREE[2]) == ("done", "cancelled: superseded")
    board.do("r2/prepare")
    assert standing(board, "r2/prepare") == ("done", "verified")


def test_old_work_that_is_claimed_loses_its_effect_and_keeps_its_place(board: StagedBoard) -> None:
    first(board)
    (claim_id,) = board.grant()
    dispatch_id = board.launch(claim_id)
    board.cancel(THREE[0], "superseded")
    with pytest.raises(CallboardError) as refused:
        board.finish(claim_id, "completed")
    assert refused.value.code == "claim_closed"
    projection = board.view().projection
    assert projection.works[board.work_id(THREE[0])].state == "cancelled"
    assert list(projection.open_dispatches) == [dispatch_id]
    board.release(dispatch_id, "cancelled")
    assert not board.view().projection.open_dispatches


def test_old_work_that_is_completed_is_decided_by_its_delivery_alone(board: StagedBoard) -> None:
    first(board)
    (claim_id,) = board.grant()
    board.launch(claim_id)
    board.finish(claim_id, "completed")
    with pytest.raises(CallboardError) as refused:
        board.cancel(THREE[0], "superseded")
    assert refused.value.code == "work_closed"
    board.deliver(THREE[0])
    assert standing(board, THREE[0]) == ("done", "verified")


def test_an_old_result_is_reused_by_an_edge_that_says_so(board: StagedBoard) -> None:
    first(board)
    board.do(THREE[0])
    board.submit(node("r2/analyze", THREE[0]))
    board.cancel(THREE[1], "superseded")
    board.cancel(THREE[2], "superseded")
    (claim_id,) = board.grant()
    claim = board.view().projection.claims[claim_id].claim
    assert claim.work_id == board.work_id("r2/analyze")
    assignment = board.view().projection.dispatches[claim.dispatch_id].assignment
    (reference,) = assignment.claims[0].result_refs
    assert reference.work_id == board.work_id(THREE[0])


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_an_old_node_that_failed_is_no_success_for_a_new_one(board: StagedBoard, end: str) -> None:
    board.submit(node("r1/prepare"))
    if end == "cancelled":
        board.cancel("r1/prepare", "superseded")
    else:
        (claim_id,) = board.grant()
        dispatch_id = board.launch(claim_id)
        board.finish(claim_id, "completed")
        board.release(dispatch_id, "failure")
        board.clock.advance(300_000)
        board.fail_delivery("r1/prepare")
    board.submit(node("r2/analyze", "r1/prepare"))
    reason = "dependency_failed" if end == "cancelled" else "dependency_delivery_failed"
    assert standing(board, "r2/analyze") == ("stuck", reason)
    assert isinstance(board.ask(), Nothing)


def test_nothing_old_is_rewired_or_taken_back(board: StagedBoard) -> None:
    first(board)
    before = work_document(board.view().projection.works[board.work_id(THREE[1])])
    with pytest.raises(CallboardError) as refused:
        board.submit(node(THREE[1], THREE[0], payload={"task": "another"}))
    assert refused.value.code == "work_conflict"
    with pytest.raises(CallboardError) as refused:
        board.submit(node(THREE[2]))
    assert refused.value.code == "work_conflict"
    assert work_document(board.view().projection.works[board.work_id(THREE[1])]) == before


def test_another_graph_has_no_edge_to_this_one(board: StagedBoard) -> None:
    first(board)
    board.do(THREE[0])
    with pytest.raises(CallboardError) as refused:
        board.submit(node("analyze", THREE[0]), graph="campaign-2")
    assert refused.value.code in ("plan_invalid", "dependency_missing")


def test_siblings_of_a_cancelled_member_keep_their_run_and_their_facts() -> None:
    board = StagedBoard("", "max_claims = 3\n")
    board.submit(node("r1/a"), node("r1/b"), node("r2/c"))
    claims = board.grant(3)
    dispatch_id = board.launch(claims[0])
    assert {board.dispatch_of(one) for one in claims} == {dispatch_id}
    board.finish(claims[0], "completed")
    board.deliver("r1/a")
    board.cancel("r1/b", "superseded")
    projection = board.view().projection
    assert projection.dispatches[dispatch_id].open_claims == 1
    # The run is ended for the sake of the one: the open sibling is tried again, at its old place.
    place = projection.works[board.work_id("r2/c")].place
    board.release(dispatch_id, "cancelled")
    projection = board.view().projection
    assert projection.works[board.work_id("r1/a")].barrier == "verified"
    assert projection.works[board.work_id("r1/b")].state == "cancelled"
    waiting = projection.works[board.work_id("r2/c")]
    assert (waiting.state, waiting.place, waiting.attempts) == ("available", place, 1)
    board.clock.advance(30_000)
    board.do("r2/c")
