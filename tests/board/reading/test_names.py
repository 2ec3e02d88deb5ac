"""Names that people type, and names that are shown."""

from __future__ import annotations

import pytest

from callboard.board.reading.names import Names, find_claim, find_dispatch, find_work
from callboard.errors import CallboardError
from tests.board.reading.staged_board import StagedBoard, node


def found(board: StagedBoard, text: str) -> str:
    return find_work(board.view().projection, text).work.work_id


def test_a_node_is_found_by_key_graph_and_id(board: StagedBoard) -> None:
    board.submit(node("a"), node("b:c"))
    work_id = board.work_id("a")
    for text in ("a", "g:a", work_id, work_id[:6], work_id[:63]):
        assert found(board, text) == work_id
    assert found(board, "b:c") == found(board, "g:b:c") == board.work_id("b:c")


def test_a_graph_name_may_hold_colons(board: StagedBoard) -> None:
    board.submit(node("x"), graph="team:2026")
    assert found(board, "team:2026:x") == board.work_id("x", "team:2026")


def test_an_ambiguous_name_lists_what_it_can_mean(board: StagedBoard) -> None:
    board.submit(node("a"))
    board.submit(node("a"), graph="h")
    with pytest.raises(CallboardError) as refusal:
        found(board, "a")
    assert refusal.value.code == "selector_ambiguous"
    candidates = refusal.value.details["candidates"]
    assert isinstance(candidates, list)
    assert [one["graph_id"] for one in candidates] == ["g", "h"]
    assert found(board, "h:a") == board.work_id("a", "h")


@pytest.mark.parametrize("text", ["", "zz", "inspekt", "g:", ":a", "ABCDEF", "00000"])
def test_an_unknown_name_is_refused(board: StagedBoard, text: str) -> None:
    board.submit(node("inspect"))
    with pytest.raises(CallboardError) as refusal:
        found(board, text)
    assert refusal.value.code == "work_unknown"


def test_a_near_miss_is_named(board: StagedBoard) -> None:
    board.submit(node("inspect"))
    with pytest.raises(CallboardError, match="did you mean 'inspect'"):
        found(board, "inspekt")


def test_a_short_start_of_an_id_is_no_name(board: StagedBoard) -> None:
    board.submit(node("a"))
    with pytest.raises(CallboardError, match="no node"):
        found(board, board.work_id("a")[:5])


def test_names_are_short_where_they_can_be_and_safe_to_type(board: StagedBoard) -> None:
    board.submit(node("a"), node("b c"), node("$(x)"), node("only"))
    board.submit(node("a"), graph="h")
    names = Names(board.view().projection)
    assert names.label(board.work_id("only")) == names.typed(board.work_id("only")) == "only"
    assert names.label(board.work_id("a", "h")) == "h:a"
    assert names.label(board.work_id("b c")) == "b c"
    for key in ("b c", "$(x)"):
        assert names.typed(board.work_id(key)) == board.work_id(key)[:12]


def test_claims_and_dispatches_are_found_by_the_start_of_their_ids(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"))
    (claim_id,) = board.grant()
    board.grant()
    projection = board.view().projection
    dispatch_id = board.dispatch_of(claim_id)
    assert find_claim(projection, claim_id[:12]).claim.claim_id == claim_id
    assert find_dispatch(projection, dispatch_id[:12]).assignment.dispatch_id == dispatch_id
    for find, code in ((find_claim, "claim_unknown"), (find_dispatch, "dispatch_unknown")):
        with pytest.raises(CallboardError) as refusal:
            find(projection, "c_unknown")
        assert refusal.value.code == code
