"""The ledger line by line, sound and damaged."""

from __future__ import annotations

import pytest

from callboard.board.ledger.history import History
from callboard.board.reading.differences import differences
from callboard.board.reading.lines import MAX_LISTED, diagnose, log, tally
from callboard.errors import CallboardError
from tests.board.reading.staged_board import StagedBoard, node


@pytest.fixture
def worked(board: StagedBoard) -> StagedBoard:
    board.submit(*[node(f"n{number}") for number in range(20)])
    for number in range(15):
        board.do(f"n{number}")
    return board


def test_the_log_has_the_latest_commits_in_causal_order(worked: StagedBoard) -> None:
    found = log(worked.view(), limit=3)
    assert found["count"] == 1 + 15 * 6
    assert [one["kind"] for one in found["commits"]] == ["finish", "result", "release"]
    assert [one["ordinal"] for one in found["commits"]] == [88, 89, 90]
    assert log(worked.view(), limit=1000)["commits"][0]["operations"] == {"Policy": 1, "Work": 20}


def test_the_tally_counts_what_stands(worked: StagedBoard) -> None:
    found = tally(worked.view())
    assert found["valid"] is True
    assert (found["works"], found["available"], found["completed"]) == (20, 5, 15)
    assert (found["commits"], found["lines"], found["claims"]) == (91, 91, 15)
    assert found["bytes"] == found["ledger_bytes"] == len(worked.data)


@pytest.mark.parametrize("damage", [b'{"a":', b'{"id":"a","id":"b"}', b"\xff", b"{}", b"[]"])
def test_a_bad_line_in_the_middle_hides_none_of_the_others(
    worked: StagedBoard, damage: bytes
) -> None:
    lines = worked.data.splitlines()
    lines[49] = damage
    data = b"\n".join(lines) + b"\n"
    with pytest.raises(CallboardError) as refusal:
        History.read(data)
    assert refusal.value.code == "ledger_invalid"
    assert refusal.value.details["line"] == 50
    found = diagnose(data)
    assert (found["lines"], found["readable_lines"], found["unreadable_lines"]) == (91, 90, 1)
    (bad,) = found["unreadable"]
    assert bad["line"] == 50
    assert data[bad["byte"] :].startswith(damage)


def test_a_torn_end_is_one_unreadable_line(worked: StagedBoard) -> None:
    found = diagnose(worked.data[:-5])
    assert found["unreadable"][0]["line"] == 91
    assert found["unreadable"][0]["cause"] == "truncated_line"
    assert found["readable_lines"] == 90
    assert (found["lines"], found["unjudged_lines"]) == (91, 0)


@pytest.mark.parametrize(("end", "more"), [(b"", 0), (b"{", 1)])
def test_what_is_no_ledger_is_judged_only_up_to_so_many_faults(
    worked: StagedBoard, end: bytes, more: int
) -> None:
    found = diagnose(worked.data + b"{}\n" * 1_000_000 + worked.data + end)
    assert found["lines"] == 91 + 1_000_000 + 91 + more
    assert (found["readable_lines"], found["unreadable_lines"]) == (91, MAX_LISTED)
    assert found["unjudged_lines"] == found["lines"] - 91 - MAX_LISTED
    assert found["unreadable"][-1]["line"] == 91 + MAX_LISTED


def test_nothing_has_no_lines() -> None:
    found = diagnose(b"")
    assert (found["lines"], found["readable_lines"], found["unjudged_lines"]) == (0, 0, 0)


def test_values_differ_place_by_place() -> None:
    old = {"a": 1, "b": {"x/y": [1], "same": True}, "gone": None}
    new = {"a": 2, "b": {"x/y": [1, 2], "same": True}, "new": {}}
    assert differences(old, new) == [
        {"pointer": "/a", "installed": 1, "proposed": 2},
        {"pointer": "/b/x~1y", "installed": [1], "proposed": [1, 2]},
        {"pointer": "/gone", "installed": None},
        {"pointer": "/new", "proposed": {}},
    ]
    assert differences(old, old) == []
