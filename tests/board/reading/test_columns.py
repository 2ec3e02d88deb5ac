"""Where a node stands, why, and what to type when it is stuck."""

from __future__ import annotations

from callboard.board.reading.columns import Columns, Placed
from callboard.board.reading.detail import detail, why
from callboard.board.reading.overview import overview
from tests.board.reading.staged_board import StagedBoard, node


def placed(board: StagedBoard, key: str) -> Placed:
    view = board.view()
    return Columns(view).place(view.projection.works[board.work_id(key)])


def column(board: StagedBoard, key: str) -> tuple[str, str]:
    found = placed(board, key)
    return found.column, found.reason


def test_the_way_of_a_node_through_the_columns(board: StagedBoard) -> None:
    board.submit(node("a"), node("b", "a"))
    assert column(board, "a") == ("ready", "ready")
    assert column(board, "b") == ("waiting", "dependency_wait")
    (claim_id,) = board.grant()
    assert column(board, "a") == ("running", "granted")
    dispatch_id = board.dispatch_of(claim_id)
    board.start(dispatch_id)
    assert column(board, "a") == ("running", "launching")
    board.bind(dispatch_id)
    assert column(board, "a") == ("running", "running")
    board.finish(claim_id, "completed")
    assert column(board, "a") == ("running", "verifying")
    assert column(board, "b") == ("waiting", "dependency_result_unavailable")
    board.deliver("a")
    assert column(board, "a") == ("done", "verified")
    assert column(board, "b") == ("ready", "ready")


def test_a_retry_waits_for_its_time(board: StagedBoard) -> None:
    board.submit(node("a"))
    board.do("a", "cancelled")
    found = placed(board, "a")
    assert (found.column, found.reason) == ("waiting", "retry_delayed")
    assert found.evidence["until_ms"] == board.clock.now_ms() + 30_000
    board.clock.advance(30_000)
    assert column(board, "a") == ("ready", "ready")


def test_used_up_attempts_are_stuck_with_what_was_tried(board: StagedBoard) -> None:
    board.submit(node("a"), node("b", "a"), node("c", "b"))
    for _attempt in range(3):
        board.do("a", "cancelled")
        board.clock.advance(30_000)
    found = placed(board, "a")
    assert (found.column, found.reason) == ("stuck", "attempts_exhausted")
    assert found.evidence["attempts"] == 3
    assert found.evidence["last_claim"] == "worker_cancelled"
    assert found.evidence["conclusion"] == "success"
    assert found.next == "callboard show a"
    last = placed(board, "c")
    assert (last.column, last.reason) == ("stuck", "dependency_failed")
    assert last.evidence["path"] == ["c", "b", "a"]
    assert last.evidence["cause_reason"] == "attempts_exhausted"
    assert last.next == "callboard show a"


def test_a_cancelled_predecessor_shows_at_once_and_cancelling_settles(board: StagedBoard) -> None:
    board.submit(node("a"), node("b", "a"))
    board.cancel("a")
    assert column(board, "a") == ("done", "cancelled: not_needed")
    assert column(board, "b") == ("stuck", "dependency_failed")
    board.cancel("b")
    assert column(board, "b") == ("done", "cancelled: not_needed")


def test_a_failed_delivery_is_stuck_and_so_is_what_waits_for_it(board: StagedBoard) -> None:
    board.submit(node("a"), node("b", "a"))
    (claim_id,) = board.grant()
    dispatch_id = board.launch(claim_id)
    board.finish(claim_id, "completed")
    board.release(dispatch_id, "failure")
    board.fail_delivery("a")
    found = placed(board, "a")
    assert (found.column, found.reason) == ("stuck", "delivery_failed")
    assert found.evidence["failure"] == "output_missing"
    assert found.evidence["effects"] == "unknown"
    assert column(board, "b") == ("stuck", "dependency_delivery_failed")


def test_a_launch_in_doubt_is_stuck_with_the_command_that_settles_it(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"))
    first, second = board.grant(2, 2)
    for claim_id in (first, second):
        board.start(board.dispatch_of(claim_id))
        board.doubt(board.dispatch_of(claim_id), "uncertain")
    board.doubt(board.dispatch_of(second), "unresolved")
    assert column(board, "a") == ("stuck", "launch_uncertain")
    assert placed(board, "a").next == "callboard reconcile"
    assert column(board, "b") == ("stuck", "launch_unresolved")
    assert placed(board, "b").next == "callboard reconcile"


def test_what_is_overdue_is_stuck(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"))
    board.grant()
    claim_b = board.grant()[0]
    board.launch(claim_b)
    board.finish(claim_b, "completed")
    board.clock.advance(300_001)
    assert column(board, "a") == ("stuck", "launch_overdue")
    assert column(board, "b") == ("stuck", "delivery_pending")


def test_ready_work_tells_what_holds_it() -> None:
    board = StagedBoard("[work_queue]\nconcurrency = 1\n")
    board.submit(node("a"), node("b"))
    board.grant()
    found = placed(board, "b")
    assert (found.column, found.reason) == ("ready", "capacity_blocked")
    assert found.evidence == {"limit": "logical"}
    board.pause("grants_paused")
    assert column(board, "b") == ("ready", "grants_paused")


def test_the_overview_counts_all_and_lists_some(board: StagedBoard) -> None:
    board.submit(*[node(f"n{number}") for number in range(9)])
    document = overview(board.view(), limit=4)
    ready = document["columns"]["ready"]
    assert ready["count"] == 9
    assert [one["name"] for one in ready["works"]] == ["n0", "n1", "n2", "n3"]
    assert [one["name"] for one in document["next"][0]["works"]] == ["n0", "n1", "n2"]
    assert document["next"][0]["works"][0]["basis"] == ["fifo_default"]
    assert document["tip"]
    assert document["provenance"] == "live"


def test_an_empty_board_has_an_overview(board: StagedBoard) -> None:
    document = overview(board.view(), limit=4)
    assert document["tip"] is None
    assert {one["count"] for one in document["columns"].values()} == {0}


def test_the_first_node_of_an_unseen_key_is_next_at_once() -> None:
    board = StagedBoard("[work_queue.accounting_weights]\nnew = 1\n")
    board.submit(node("a", fairness_key="new"))
    assert [one["name"] for one in overview(board.view(), limit=1)["next"][0]["works"]] == ["a"]
    board.do("a")


def test_the_detail_has_edges_claims_and_the_whole_record(board: StagedBoard) -> None:
    board.submit(node("a"), node("b", "a"), node("c", "b"))
    claim_id = board.do("a")
    view = board.view()
    document = detail(view, view.projection.works[board.work_id("b")])
    assert [(one["name"], one["satisfied"]) for one in document["predecessors"]] == [("a", True)]
    assert [one["name"] for one in document["successors"]] == ["c"]
    assert document["work"]["position"] == {"commit": 0, "operation": 2}
    first = detail(view, view.projection.works[board.work_id("a")])
    assert [one["claim_id"] for one in first["claims"]] == [claim_id]
    assert first["claims"][0]["launch"] == "released"
    assert first["work"]["result"] == {"version": 1, "outputs": []}


def test_why_counts_the_grants_that_come_before() -> None:
    board = StagedBoard("[work_queue]\nconcurrency = 3\n")
    board.submit(*[node(f"n{number}") for number in range(6)])
    view = board.view()

    def line(key: str) -> dict[str, object]:
        found = why(view, view.projection.works[board.work_id(key)])["line"]
        assert isinstance(found, dict)
        return found

    assert line("n0") == {"ahead": 0, "exact": True, "next": []}
    assert line("n2") == {"ahead": 2, "exact": True, "next": ["n0", "n1"]}
    beyond = line("n5")
    assert (beyond["exact"], beyond["stop"], beyond["limit"]) == (
        False,
        "capacity_blocked",
        "logical",
    )
