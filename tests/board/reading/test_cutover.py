"""A strict cutover is complete when nothing old can act any more, and else says what can."""

from __future__ import annotations

import time
from typing import Any

import pytest

from callboard.board.reading.cutover import MAX_VIOLATIONS, cutover
from callboard.board.reading.view import Document
from callboard.errors import CallboardError
from tests.board.reading.staged_board import StagedBoard, node


def look(board: StagedBoard, *prefixes: str, graph: str = "g") -> Document:
    return cutover(board.view(), graph, prefixes)


def kinds(board: StagedBoard, *prefixes: str) -> list[tuple[str, Any]]:
    return [(one["kind"], one.get("name")) for one in look(board, *prefixes)["violations"]]


def pause(board: StagedBoard) -> None:
    board.pause("admission_paused")
    board.pause("grants_paused")


def test_each_condition_by_itself(board: StagedBoard) -> None:
    board.submit(node("r1/a"), node("r1/b", "r1/a"), node("r2/a"))
    (claim_id,) = board.grant()
    dispatch_id = board.launch(claim_id)
    both = [("node", "r1/a"), ("node", "r1/b"), ("reservation", None)]
    opened = [("admission_open", None), ("grants_open", None)]
    assert kinds(board, "r1/") == [*opened, *both]
    pause(board)
    assert kinds(board, "r1/") == both
    board.finish(claim_id, "completed")
    assert kinds(board, "r1/") == [("node", "r1/b"), ("reservation", None), ("delivery", None)]
    board.release(dispatch_id)
    assert kinds(board, "r1/") == [("node", "r1/b"), ("delivery", None)]
    board.deliver("r1/a")
    assert kinds(board, "r1/") == [("node", "r1/b")]
    board.cancel("r1/b", "superseded")
    found = look(board, "r1/")
    assert (found["complete"], found["count"], found["violations"]) == (True, 0, [])
    assert found["nodes"] == {"count": 2, "stages": {"cancelled": 1, "verified": 1}}
    assert kinds(board) == [("node", "r2/a")]
    board.pause("admission_paused", False)
    assert kinds(board, "r1/") == [("admission_open", None)]


def test_each_violation_says_where_it_stands_and_what_to_type(board: StagedBoard) -> None:
    board.submit(node("r1/a"), node("r1/b"), node("r1/c", "r1/b"))
    (claim_id,) = board.grant()
    board.launch(claim_id)
    told = [(one.get("stage"), one["next"]) for one in look(board, "r1/")["violations"]]
    assert told == [
        (None, "callboard pause admission --reason cutover"),
        (None, "callboard pause grants --reason cutover"),
        ("bound", "callboard drain"),
        ("ready", "callboard cancel r1/b --reason superseded"),
        ("waiting", "callboard cancel r1/c --reason superseded"),
        ("bound", "callboard drain"),
    ]


def test_a_cancelled_node_whose_run_goes_on_keeps_it_pending(board: StagedBoard) -> None:
    board.submit(node("r1/a"))
    pause_after = board.grant()
    dispatch_id = board.launch(pause_after[0])
    pause(board)
    board.cancel("r1/a")
    assert kinds(board, "r1/") == [("reservation", None)]
    board.release(dispatch_id)
    assert look(board, "r1/")["complete"]


def test_an_unresolved_launch_keeps_it_pending(board: StagedBoard) -> None:
    board.submit(node("r1/a"))
    (claim_id,) = board.grant()
    dispatch_id = board.dispatch_of(claim_id)
    board.start(dispatch_id)
    board.doubt(dispatch_id, "uncertain")
    board.doubt(dispatch_id, "unresolved")
    pause(board)
    board.cancel("r1/a")
    found = look(board, "r1/")
    assert (found["complete"], found["unresolved"]) == (False, 1)
    (one,) = found["violations"]
    assert (one["stage"], one["next"]) == (
        "unresolved", "callboard reconcile"
    )  # fmt: skip


def test_descendants_of_what_will_never_be_verified_have_to_be_disposed_of(
    board: StagedBoard,
) -> None:
    board.submit(
        node("r1/a"), node("r1/b"), node("r2/a", "r1/a"), node("r2/b", "r1/b"),
        node("mid", "r2/a"), node("end", "mid"), node("free"),
    )  # fmt: skip
    board.do("r1/a")
    board.cancel("r1/b")
    pause(board)
    # What waits for a verified one is free to go on.
    assert kinds(board, "r1/") == [("descendant", "r2/b")]
    assert look(board, "r1/")["violations"][0]["cause"] == "r1/b"
    board.cancel("r2/b")
    assert look(board, "r1/")["complete"]


def test_a_cancelled_node_in_between_hides_no_descendant(board: StagedBoard) -> None:
    board.submit(node("r1/a"), node("mid", "r1/a"), node("end", "mid"))
    board.cancel("r1/a")
    board.cancel("mid")
    pause(board)
    assert kinds(board, "r1/") == [("descendant", "end")]


def test_descendants_of_a_failed_delivery_count_too(board: StagedBoard) -> None:
    board.submit(node("r1/a"), node("report", "r1/a"))
    (claim_id,) = board.grant()
    dispatch_id = board.launch(claim_id)
    board.finish(claim_id, "completed")
    board.release(dispatch_id, "failure")
    board.clock.advance(300_000)
    board.fail_delivery("r1/a")
    pause(board)
    found = look(board, "r1/")
    assert found["nodes"]["stages"] == {"failed": 1}
    assert kinds(board, "r1/") == [("descendant", "report")]


def test_other_graphs_are_left_alone(board: StagedBoard) -> None:
    board.submit(node("r1/a"))
    board.submit(node("r1/a"), graph="h")
    board.cancel("r1/a")
    pause(board)
    assert look(board, "r1/")["complete"]
    assert not look(board, "r1/", graph="h")["complete"]


def test_what_names_nothing_is_refused(board: StagedBoard) -> None:
    board.submit(node("r1/a"))
    with pytest.raises(CallboardError) as refused:
        look(board, graph="gg")
    assert refused.value.code == "cutover_graph_unknown"
    with pytest.raises(CallboardError) as refused:
        look(board, "r1/", "R1/")
    assert refused.value.code == "cutover_nothing_old"
    assert refused.value.details == {"graph": "g", "prefix": "R1/", "node_count": 1}


def test_letters_of_all_kinds_and_however_they_are_composed(board: StagedBoard) -> None:
    keys = ["e\u0301tape/a", "\u00e9tape/b", "etape/c", "\u65e7\u7248/a", "\U0001f43f/x"]
    board.submit(*(node(key) for key in keys))
    pause(board)
    for prefix in ("\u00e9", "e\u0301tape/"):
        assert [name for _kind, name in kinds(board, prefix)] == keys[:2]
    assert [name for _kind, name in kinds(board, "\u65e7")] == keys[3:4]
    assert [name for _kind, name in kinds(board, "\U0001f43f/", "etape/")] == [keys[2], keys[4]]


def test_several_prefixes_are_one_revision(board: StagedBoard) -> None:
    board.submit(node("r0/a"), node("r1/a"), node("r2/a"))
    pause(board)
    assert [name for _kind, name in kinds(board, "r1/", "r0/")] == ["r0/a", "r1/a"]


def test_two_thousand_nodes_are_counted_and_not_all_listed() -> None:
    board = StagedBoard("[work_queue]\nretry = {max_attempts = 1, backoff_seconds = 1}\n")
    for part in range(8):
        board.submit(*(node(f"r1/{part}-{number:03}") for number in range(250)))
    pause(board)
    began = time.perf_counter()
    found = look(board, "r1/")
    took_s = time.perf_counter() - began
    assert (found["count"], len(found["violations"])) == (2_000, MAX_VIOLATIONS)
    assert found["violations"][0]["name"] == "r1/0-000"
    # A loop over all Work within another one would take minutes.
    assert took_s < 10
