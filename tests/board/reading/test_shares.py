"""Turns due and got."""

from __future__ import annotations

from typing import Any

from callboard.board.reading.shares import shares
from tests.board.reading.staged_board import StagedBoard, node

EQUAL = "[work_queue]\nconcurrency = 256\naccounting_weights = {platform = 1, security = 1}\n"


def keys(board: StagedBoard, priority: int = 3) -> dict[str, tuple[str, int]]:
    (pool,) = shares(board.view())
    (found,) = [one for one in pool["classes"] if one["priority"] == priority]
    return {one["key"]: (one["due_turns"], one["got_turns"]) for one in found["keys"]}


def nodes(key: str, count: int, **fields: Any) -> list[dict[str, Any]]:
    return [node(f"{key}{number}", fairness_key=key, **fields) for number in range(count)]


def test_a_large_backlog_is_due_no_more_than_its_part_while_both_compete() -> None:
    board = StagedBoard(EQUAL)
    board.submit(*nodes("platform", 60), *nodes("security", 10))
    for _turn in range(10):
        board.grant()
    assert keys(board) == {"platform": ("5.0", 5), "security": ("5.0", 5)}
    for _turn in range(60):
        board.grant()
    assert keys(board) == {"platform": ("60.0", 60), "security": ("10.0", 10)}


def test_a_late_joiner_is_due_nothing_for_the_past() -> None:
    board = StagedBoard(EQUAL)
    board.submit(*nodes("platform", 20))
    for _turn in range(8):
        board.grant()
    board.submit(*nodes("security", 4))
    for _turn in range(4):
        board.grant()
    assert keys(board) == {"platform": ("10.0", 10), "security": ("2.0", 2)}


def test_weights_part_the_turns() -> None:
    board = StagedBoard(EQUAL.replace("platform = 1", "platform = 2"))
    board.submit(*nodes("platform", 20), *nodes("security", 20))
    board.grant(9, 9)
    assert keys(board) == {"platform": ("6.0", 6), "security": ("3.0", 3)}


def test_waiting_retrying_and_ended_work_is_due_nothing() -> None:
    board = StagedBoard(EQUAL)
    board.submit(
        node("s0", fairness_key="security"),
        node("s1", "s0", fairness_key="security"),
        *nodes("platform", 12),
    )
    (first,) = board.grant()
    (second,) = board.grant()
    projection = board.view().projection
    secure = first if projection.claims[first].claim.work_id == board.work_id("s0") else second
    for _turn in range(3):
        board.grant()
    assert keys(board) == {"platform": ("4.0", 4), "security": ("1.0", 1)}
    board.launch(secure)
    board.finish(secure, "cancelled")
    for _turn in range(3):
        board.grant()
    assert keys(board)["security"] == ("1.0", 1)
    board.clock.advance(30_000)
    board.grant(2, 2)
    assert keys(board) == {"platform": ("8.0", 8), "security": ("2.0", 2)}
    board.cancel("s1")
    board.grant()
    assert keys(board) == {"platform": ("9.0", 9), "security": ("2.0", 2)}


def test_classes_have_their_parts_and_strict_priority_has_none() -> None:
    board = StagedBoard("")
    urgent = [node(f"u{number}", priority=1) for number in range(20)]
    board.submit(*urgent, *[node(f"n{number}", priority=4) for number in range(20)])
    board.grant(9, 9)
    (pool,) = shares(board.view())
    found = {one["priority"]: (one["due_turns"], one["got_turns"]) for one in pool["classes"]}
    assert found == {1: ("8.0", 8), 4: ("1.0", 1)}
    strict = StagedBoard('[work_queue]\nmode = "strict-priority"\n')
    strict.submit(*urgent, node("n", priority=4))
    strict.grant(3, 3)
    (pool,) = shares(strict.view())
    assert [one["got_turns"] for one in pool["classes"]] == [3, 0]
    assert all("due_turns" not in one for one in pool["classes"])


def test_a_board_without_grants_has_rows_without_turns() -> None:
    board = StagedBoard(EQUAL)
    board.submit(*nodes("platform", 2))
    assert keys(board) == {"platform": ("0.0", 0)}
