"""Failed nodes, what stands in for them and what waits in vain: told in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.board.projection.lineage import Lineage
from callboard.board.publishing.replacement import Asking, Remedy, Replace, Wish
from callboard.board.reading.columns import Columns
from callboard.board.reading.detail import detail, why
from tests.board.reading.staged_board import StagedBoard


def replace(board: StagedBoard, key: str, remedy: str = "failure:x") -> None:
    board.publish(
        Replace(
            f"replace-{key}-{len(board.view().projection.requests)}",
            board.actor("producer"),
            Wish(board.work_id(key)),
            Asking(),
            Remedy("inspection", remedy),
            lambda _routes, _works: None,
        )
    )


def fail(board: StagedBoard, key: str) -> None:
    (claim_id,) = board.grant()
    assert board.view().projection.claims[claim_id].claim.work_id == board.work_id(key)
    dispatch_id = board.launch(claim_id)
    board.finish(claim_id, "completed")
    board.release(dispatch_id)
    board.fail_delivery(key)


@pytest.fixture
def failed() -> StagedBoard:
    board = StagedBoard()
    board.submit({"key": "a"}, {"key": "b", "after": ["a"]}, {"key": "c", "after": ["b", "a"]})
    fail(board, "a")
    return board


def placed(board: StagedBoard, key: str) -> Any:
    columns = Columns(board.view())
    return columns.place(columns.work(board.work_id(key)))


def told(board: StagedBoard, key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `show` and `explain` answer."""
    view = board.view()
    state = view.projection.works[board.work_id(key)]
    return detail(view, state), why(view, state)


def test_a_failed_node_tells_how_to_replace_it_and_whom_it_blocks(failed: StagedBoard) -> None:
    advice = "callboard replace a --verifier NAME"
    assert (placed(failed, "a").column, placed(failed, "a").next) == ("stuck", advice)
    assert placed(failed, "c").next == advice
    for document in told(failed, "a"):
        assert [one["name"] for one in document["blocked"]] == ["b", "c"]
        assert "replaced_by" not in document
    for document in told(failed, "b"):
        assert document["evidence"]["cause"] == "a"
        assert "cause_replaced_by" not in document["evidence"]


def test_both_directions_once_it_is_replaced(failed: StagedBoard) -> None:
    replace(failed, "a")
    assert (placed(failed, "a").column, placed(failed, "a").reason) == ("done", "replaced")
    for document in told(failed, "a"):
        assert document["replaced_by"]["name"] == "a-r2"
        assert document["blocked_count"] == 2
    for document in told(failed, "a-r2"):
        assert document["replaces"] == {
            "name": "a",
            "work_id": failed.work_id("a"),
            "disposition": "inspection",
            "failure": "output_missing",
            "effects": "unknown",
            "receipt": "failure:x",
        }
    blocked = placed(failed, "c")
    assert blocked.column == "stuck"
    assert blocked.evidence["cause_replaced_by"] == "a-r2"
    assert blocked.next == "callboard cancel c --reason replaced"
    failed.cancel("c")
    failed.cancel("b")
    assert all("blocked" not in document for document in told(failed, "a"))


def test_a_chain_leads_to_its_end(failed: StagedBoard) -> None:
    replace(failed, "a")
    fail(failed, "a-r2")
    assert placed(failed, "a").reason == "replaced"
    assert (placed(failed, "a-r2").column, placed(failed, "a-r2").reason) == (
        "stuck", "delivery_failed",
    )  # fmt: skip
    replace(failed, "a-r2")
    assert placed(failed, "b").evidence["cause_replaced_by"] == "a-r3"
    failed.do("a-r3")
    assert placed(failed, "b").column == "stuck"


def test_a_cancelled_replacement_counts_no_more(failed: StagedBoard) -> None:
    replace(failed, "a")
    failed.cancel("a-r2")
    assert placed(failed, "a").reason == "delivery_failed"
    replace(failed, "a")
    lineage = Lineage(failed.view().projection)
    standing = lineage.replacement(failed.work_id("a"))
    assert standing is not None
    assert standing.work.node_key == "a-r3"
    assert lineage.latest(failed.work_id("b")) is None
