"""Grants explained afterwards, and previews that agree with them."""

from __future__ import annotations

import pytest

from callboard.board.ledger.history import History
from callboard.board.reading.decisions import before_claim
from callboard.board.reading.planning import batch_document, next_document
from callboard.board.reading.view import Document, View, commit_at
from callboard.errors import CallboardError
from tests.board.reading.staged_board import StagedBoard, node

EQUAL = "[work_queue]\nconcurrency = 4\naccounting_weights = {a = 1, b = 1}\n"


@pytest.fixture
def contest() -> StagedBoard:
    board = StagedBoard(EQUAL)
    board.submit(
        node("a0", fairness_key="a"),
        node("a1", fairness_key="a"),
        node("b0", fairness_key="b"),
        node("u0", fairness_key="b", priority=1),
    )
    return board


def explained(board: StagedBoard, claim_id: str, limit: int = 20, offset: int = 0) -> Document:
    view = board.view()
    return before_claim(view, view.projection.claims[claim_id], limit=limit, offset=offset)


def test_each_claim_of_a_batch_is_explained_after_those_before_it(contest: StagedBoard) -> None:
    claims = contest.grant(4, 4)
    later = [explained(contest, claim_id) for claim_id in claims]
    winners = [one["winner"]["node_key"] for one in later]
    projection = contest.view().projection
    assert winners == [
        projection.works[projection.claims[claim_id].claim.work_id].work.node_key
        for claim_id in claims
    ]
    assert [one["capacity"]["logical"]["before"] for one in later] == [0, 1, 2, 3]
    assert [one["capacity"]["native"]["after"] for one in later] == [1, 2, 3, 4]
    assert [one["decision"]["operation"] for one in later] == [0, 1, 2, 3]


def test_the_winner_has_the_least_pass_of_its_class_and_key(contest: StagedBoard) -> None:
    for claim_id in contest.grant(4, 4):
        found = explained(contest, claim_id)
        winner = found["winner"]
        keys = found["passes"][str(winner["priority"])]["rows"]
        classes = found["passes"]["classes"]["rows"]
        assert keys[0] == {"name": winner["fairness_key"], "pass": winner["key_pass"]}
        assert classes[0] == {"name": str(winner["priority"]), "pass": winner["class_pass"]}
        assert keys == sorted(keys, key=lambda row: (int(row["pass"]), row["name"]))


def test_the_past_is_explained_as_it_was(contest: StagedBoard) -> None:
    (claim_id,) = contest.grant()
    before = explained(contest, claim_id)
    contest.grant(3, 3)
    contest.pause("grants_paused")
    after = explained(contest, claim_id)
    stamp = ("tip", "evaluated_at_ms")
    assert {k: v for k, v in before.items() if k not in stamp} == {
        k: v for k, v in after.items() if k not in stamp
    }
    assert before["eligible"] == [
        {"priority": 1, "count": 1, "keys": [{"key": "b", "works": 1}]},
        {"priority": 3, "count": 2, "keys": [{"key": "a", "works": 2}, {"key": "b", "works": 1}]},
    ]
    assert before["winner"]["position"] == {
        "commit": 0,
        "operation": 4,
        "commit_id": commit_at(contest.view().projection, 0),
    }


def test_competitors_come_in_pages() -> None:
    weights = ", ".join(f"k{number:02} = 1" for number in range(30))
    board = StagedBoard(f"[work_queue]\naccounting_weights = {{{weights}}}\n")
    board.submit(*[node(f"n{number}", fairness_key=f"k{number:02}") for number in range(30)])
    (claim_id,) = board.grant()
    pages = [explained(board, claim_id, 12, offset)["passes"]["3"] for offset in (0, 12, 24)]
    assert {page["count"] for page in pages} == {30}
    names = [row["name"] for page in pages for row in page["rows"]]
    assert names == [f"k{number:02}" for number in range(30)]
    (whole,) = explained(board, claim_id, 12, 24)["eligible"]
    assert (whole["count"], [one["key"] for one in whole["keys"]]) == (
        30,
        [f"k{number:02}" for number in range(24, 30)],
    )


def test_the_prefix_follows_the_chain_whatever_the_order_of_lines(contest: StagedBoard) -> None:
    claims = contest.grant(2, 2) + contest.grant()
    lines = contest.data.splitlines(keepends=True)
    shuffled = History.read(b"".join([lines[2], lines[0], lines[1], lines[0]]))
    view = View(shuffled, contest.view().at_ms)
    for claim_id in claims:
        found = before_claim(view, view.projection.claims[claim_id], limit=20, offset=0)
        assert found["winner"] == explained(contest, claim_id)["winner"]
    assert shuffled.prefix(1).projection.counters.claims == 0
    with pytest.raises(IndexError):
        commit_at(shuffled.projection, 9)


def test_next_agrees_with_what_is_then_granted(contest: StagedBoard) -> None:
    view = contest.view()
    found = next_document(view, "default")
    assert found["reason"] == "selected"
    assert found["basis"] == ["weighted_class", "weighted_key"]
    assert isinstance(found["class_pass"], str)
    (claim_id,) = contest.grant()
    assert contest.view().projection.claims[claim_id].claim.work_id == found["work_id"]


def test_a_batch_plan_is_what_the_request_then_gets(contest: StagedBoard) -> None:
    found = batch_document(
        contest.view(),
        "default",
        max_claims=9,
        max_dispatches=9,
        max_bytes=49_152,
        request_id="g",
    )
    assert (found["reason"], found.get("limit")) == ("no_work", None)
    claims = contest.grant(9, 9, request_id="g")
    assert [one["claim_id"] for one in found["operations"]] == claims
    assert [one["dispatch_id"] for one in found["assignments"]] == [
        contest.dispatch_of(claim_id) for claim_id in claims
    ]


def test_strict_priority_has_no_class_pass() -> None:
    board = StagedBoard('[work_queue]\nmode = "strict-priority"\n')
    board.submit(node("a", priority=2), node("b", priority=1))
    found = next_document(board.view(), "default")
    assert (found["node_key"], found["class_pass"]) == ("b", None)
    assert found["basis"] == ["priority_class", "weighted_key"]
    (claim_id,) = board.grant()
    assert explained(board, claim_id)["winner"]["class_pass"] is None


@pytest.mark.parametrize(
    ("ready", "paused", "reason"),
    [
        (False, False, "no_work"),
        (False, True, "grants_paused"),
        (True, False, "capacity_blocked"),
    ],
)
def test_nobody_is_next_for_a_reason(ready: bool, paused: bool, reason: str) -> None:
    board = StagedBoard("[work_queue]\nconcurrency = 1\n")
    board.submit(node("a"), *([node("b")] if ready else []))
    board.grant()
    if paused:
        board.pause("grants_paused")
    found = next_document(board.view(), "default")
    assert (found["work_id"], found["reason"]) == (None, reason)


def test_an_unknown_pool_is_refused(contest: StagedBoard) -> None:
    with pytest.raises(CallboardError) as refusal:
        next_document(contest.view(), "other")
    assert refusal.value.code == "pool_unknown"
