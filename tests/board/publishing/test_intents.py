"""Intents against the tip they meet."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from callboard.board.publishing import administration
from callboard.board.publishing.intents import Nothing, Operations, Submit
from callboard.board.publishing.plan import parse_plan
from callboard.board.publishing.publisher import Accepted
from callboard.errors import CallboardError
from tests.board.reading.staged_board import StagedBoard, node, policy


def submission(board: StagedBoard, request_id: str, count: int = 1, **fields: Any) -> Submit:
    nodes = [node(f"n{number}", payload={}, **fields) for number in range(count)]
    return Submit(
        request_id,
        board.actor("producer"),
        parse_plan({"graph": "g", "nodes": nodes}),
        policy,
        lambda _policy, _works: None,
    )


def test_the_first_submission_brings_the_policy_and_later_ones_do_not() -> None:
    board = StagedBoard()
    board.publish(submission(board, "r1"))
    board.publish(submission(board, "r2", 2))
    history = board.view().history
    kinds = [[type(one).__name__ for one in history.commit(n).operations] for n in range(2)]
    assert kinds == [["Policy", "Work"], ["Work", "Work"]]
    assert history.projection.counters.work == 2


def test_posting_what_stands_writes_nothing() -> None:
    board = StagedBoard()
    board.publish(submission(board, "r1", 2))
    before = board.data
    outcome = board.publisher.publish(submission(board, "r2", 2))
    assert isinstance(outcome, Nothing)
    assert outcome.reason == "already_submitted"
    assert outcome.details["works"] == [board.work_id("n0"), board.work_id("n1")]
    assert board.data == before


def test_a_submission_is_recognised_after_the_clock_moved() -> None:
    board = StagedBoard()
    board.publish(submission(board, "r1", 2))
    board.clock.advance(99_000)
    again = board.publisher.publish(submission(board, "r1", 2))
    assert isinstance(again, Accepted)
    assert again.replayed
    with pytest.raises(CallboardError) as caught:
        board.publisher.publish(submission(board, "r1", 3))
    assert caught.value.code == "request_conflict"


@pytest.mark.parametrize(("genesis", "most"), [(True, 255), (False, 256)])
def test_one_request_takes_so_many_nodes(genesis: bool, most: int) -> None:
    board = StagedBoard()
    if not genesis:
        board.submit(node("first"), graph="h")
    with pytest.raises(CallboardError) as caught:
        board.publisher.publish(submission(board, "big", most + 1))
    assert caught.value.code == "plan_too_large"
    assert "--split" in caught.value.hint
    assert caught.value.details == {"count": most + 1, "limit": most}
    board.publish(submission(board, "big", most))


def test_routes_are_verified_for_what_is_new_only() -> None:
    board = StagedBoard()
    seen: list[dict[int, str]] = []
    nodes = [node("a", payload={})]

    def submit(request_id: str) -> None:
        intent = Submit(
            request_id,
            board.actor("producer"),
            parse_plan({"graph": "g", "nodes": nodes}),
            policy,
            lambda _policy, works: seen.append({at: one.node_key for at, one in works.items()}),
        )
        board.publisher.publish(intent)

    submit("r1")
    nodes.append(node("b", payload={}))
    submit("r2")
    submit("r3")
    assert seen == [{0: "a"}, {1: "b"}]


def test_no_grant_tells_its_reason_and_limit() -> None:
    board = StagedBoard("[work_queue]\nconcurrency = 1\n")
    board.submit(node("a"), node("b"))
    board.grant()
    assert board.ask() == Nothing("capacity_blocked", {"pool": "default", "limit": "logical"})
    board.pause("grants_paused")
    assert board.ask() == Nothing("grants_paused", {"pool": "default"})


def cancel(board: StagedBoard, request_id: str, *keys: str, reason: str = "late") -> Operations:
    works = [board.work_id(key) for key in keys]
    return administration.cancel_work(request_id, works, reason, board.actor("producer"))


def test_a_repeated_cancel_is_recognised_by_what_stands() -> None:
    board = StagedBoard()
    board.submit(node("a"), node("b"), node("c"))
    board.cancel("a")
    first = board.publish(cancel(board, "c1", "a", "b"))
    before = board.data
    for again in (cancel(board, "c1", "a", "b"), cancel(board, "c1", "b", "a")):
        answer = board.publish(again)
        assert (answer.request.id, answer.replayed) == (first.request.id, True)
    board.cancel("c")
    assert board.publish(cancel(board, "c1", "b", "a")).replayed
    for other in (
        cancel(board, "c1", "c"),
        cancel(board, "c1", "b", "c"),
        cancel(board, "c1", "a"),
        cancel(board, "c1", "a", "b", reason="other"),
    ):
        with pytest.raises(CallboardError) as caught:
            board.publisher.publish(other)
        assert caught.value.code == "request_conflict"
    assert board.data.startswith(before)


def test_a_repeated_control_is_recognised_by_what_stands() -> None:
    board = StagedBoard()
    board.submit(node("a"))
    actor = board.actor("administrator")

    def control(
        value: bool, reason: str = "r", name: Any = "grants_paused", actor: Any = actor
    ) -> Operations:
        return administration.control("p", name, value, reason, actor)

    board.publish(control(True))
    before = board.data
    assert board.publish(control(True)).replayed
    stranger = structs.replace(actor, principal="8")
    for other in (
        control(False),
        control(True, "s"),
        control(True, name="admission_paused"),
        control(True, actor=stranger),
    ):
        with pytest.raises(CallboardError) as caught:
            board.publisher.publish(other)
        assert caught.value.code == "request_conflict"
    assert board.data == before


def test_completed_work_is_not_cancelled_and_named_by_its_key() -> None:
    board = StagedBoard()
    board.submit(node("a"), node("b"))
    board.do("a")
    before = board.data
    with pytest.raises(CallboardError) as caught:
        board.publisher.publish(cancel(board, "c", "b", "a"))
    assert caught.value.code == "work_closed"
    assert "'a'" in caught.value.message
    assert board.data == before


def test_a_fact_is_recorded_once() -> None:
    board = StagedBoard()
    board.submit(node("a"))
    (claim_id,) = board.grant()
    dispatch_id = board.launch(claim_id)
    before = board.data
    board.bind(dispatch_id)
    assert board.data == before


def test_a_fence_is_part_of_what_a_cancel_means() -> None:
    board = StagedBoard()
    board.submit(node("a"))
    board.grant()
    work_id, actor = board.work_id("a"), board.actor("producer")
    claim_id = str(board.view().projection.works[work_id].claim_id)
    fenced = administration.cancel_work("f", [work_id], "late", actor, claim_id=claim_id)
    first = board.publish(fenced)
    assert board.publish(fenced).request.id == first.request.id
    other = administration.cancel_work("f", [work_id], "late", actor, claim_id="c_other")
    for intent in (cancel(board, "f", "a"), other):
        with pytest.raises(CallboardError) as caught:
            board.publisher.publish(intent)
        assert caught.value.code == "request_conflict"
