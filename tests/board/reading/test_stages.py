"""One word for how far a node has come, the record behind it, and what to type."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from callboard.board.projection.entities import CONFLICTS
from callboard.board.publishing import compaction
from callboard.board.reading.columns import Columns
from callboard.board.reading.detail import detail, placed_document, why
from callboard.board.reading.receipts import receipt, request_of
from callboard.board.reading.stages import STAGES, Stage, launch_stage
from callboard.board.reading.tracing import trace_claim, trace_dispatch, trace_work
from callboard.board.reading.view import Document
from tests.board.reading.staged_board import PRINCIPAL, START_MS, StagedBoard, node

DEADLINE_MS = 300_000


def listed(board: StagedBoard, key: str) -> Document:
    view = board.view()
    columns = Columns(view)
    return placed_document(columns, columns.place(view.projection.works[board.work_id(key)]))


def waiting(board: StagedBoard) -> None:
    board.submit(node("before"), node("a", "before"))


def ready(board: StagedBoard) -> None:
    board.submit(node("a"))


def granted(board: StagedBoard) -> None:
    board.submit(node("a"))
    board.grant(request_id="g")


def started(board: StagedBoard) -> None:
    granted(board)
    board.start(of_launch(board))


def uncertain(board: StagedBoard) -> None:
    started(board)
    board.doubt(of_launch(board), "uncertain", looks=3)


def unresolved(board: StagedBoard) -> None:
    uncertain(board)
    board.doubt(of_launch(board), "unresolved", looks=5)


def bound(board: StagedBoard) -> None:
    started(board)
    board.bind(of_launch(board))


def completed_pending(board: StagedBoard) -> None:
    bound(board)
    board.finish(of_claim(board), "completed")


def verified(board: StagedBoard) -> None:
    completed_pending(board)
    board.deliver("a")


def failed(board: StagedBoard) -> None:
    completed_pending(board)
    board.release(of_launch(board), "failure")
    board.fail_delivery("a")


def cancelled(board: StagedBoard) -> None:
    granted(board)
    board.cancel("a")


WAYS: dict[str, Callable[[StagedBoard], None]] = {
    way.__name__: way
    for way in (
        waiting, ready, granted, started, uncertain, unresolved, bound, completed_pending,
        verified, failed, cancelled,
    )
}  # fmt: skip
LAUNCHED = [name for name in WAYS if name not in ("waiting", "ready")]


def of_claim(board: StagedBoard) -> str:
    (claim_id,) = board.view().projection.claims
    return claim_id


def of_launch(board: StagedBoard) -> str:
    return board.dispatch_of(of_claim(board))


def test_every_word_has_its_test() -> None:
    # That a run has ended on its host is for who can ask the host.
    assert {*WAYS, "terminal"} == set(STAGES)


@pytest.mark.parametrize("stage", WAYS)
def test_every_answer_about_a_node_says_how_far_it_has_come(board: StagedBoard, stage: str) -> None:
    WAYS[stage](board)
    view = board.view()
    state = view.projection.works[board.work_id("a")]
    assert listed(board, "a")["stage"] == stage
    assert detail(view, state)["stage"] == stage
    assert why(view, state)["stage"] == stage
    trace = trace_work(view, state)
    assert trace["commits"][-1]["stage"] == stage
    submitted = receipt(view, request_of(view.projection, "r1"))
    assert submitted["nodes"][-1]["stage"] == stage


@pytest.mark.parametrize("stage", LAUNCHED)
def test_attempts_and_launches_say_so_too(board: StagedBoard, stage: str) -> None:
    WAYS[stage](board)
    view = board.view()
    claim = view.projection.claims[of_claim(board)]
    dispatch = view.projection.dispatches[of_launch(board)]
    found = receipt(view, request_of(view.projection, "g"))
    assert found["claims"][0]["stage"] == stage
    assert found["dispatches"][0]["stage"] == launch_stage(dispatch)
    (attempt,) = detail(view, view.projection.works[board.work_id("a")])["claims"]
    assert attempt["stage"] == stage
    assert trace_claim(view, claim)["commits"][-1]["stage"] == stage
    last = trace_dispatch(view, dispatch)["commits"][-1]
    assert last["stage"] == launch_stage(dispatch)
    assert last["launch"] == found["dispatches"][0]["status"]


def test_a_trace_follows_each_attempt_and_its_launch(board: StagedBoard) -> None:
    board.submit(node("a"), node("b", "a"))
    board.do("a", "cancelled")
    board.clock.advance(30_000)
    board.do("a")
    view = board.view()
    trace = trace_work(view, view.projection.works[board.work_id("a")])
    assert [(one["stage"], one.get("launch")) for one in trace["commits"]] == [
        ("ready", None),
        ("granted", "reserved"),
        ("started", "started"),
        ("bound", "bound"),
        ("waiting", "bound"),
        ("waiting", "released"),
        ("granted", "reserved"),
        ("started", "started"),
        ("bound", "bound"),
        ("completed_pending", "bound"),
        ("verified", "bound"),
        ("verified", "released"),
    ]
    later = trace_work(view, view.projection.works[board.work_id("b")])
    assert [one["stage"] for one in later["commits"]] == ["waiting"]
    board.submit(node("a"), node("c", "a"))
    view = board.view()
    new = trace_work(view, view.projection.works[board.work_id("c")])
    assert [one["stage"] for one in new["commits"]] == ["ready"]


def test_the_release_of_an_earlier_attempt_is_not_that_of_the_present_one() -> None:
    board = StagedBoard("[work_queue.retry]\nbackoff_seconds = 1\n")
    board.submit(node("a"))
    (first,) = board.grant()
    slow = board.launch(first)
    board.finish(first, "cancelled")
    board.clock.advance(1_000)
    board.grant()
    board.release(slow, "failure")
    view = board.view()
    trace = trace_work(view, view.projection.works[board.work_id("a")])
    assert [(one["stage"], one.get("launch")) for one in trace["commits"]][-3:] == [
        ("waiting", "bound"),
        ("granted", "reserved"),
        ("granted", "reserved"),
    ]


def test_a_doubt_shows_its_reason_its_looks_its_sender_and_who_recorded_it(
    board: StagedBoard,
) -> None:
    unresolved(board)
    board.clock.advance(60_000)
    found = listed(board, "a")
    record = found["evidence"].pop("record")
    assert (found["column"], found["reason"]) == ("stuck", "launch_unresolved")
    assert found["since_ms"] == START_MS
    assert found["evidence"] == {
        "dispatch_id": of_launch(board),
        "launch": "launch_unresolved",
        "launch_reason": "launch_timeout",
        "sender": {"principal": PRINCIPAL, "run_id": "99"},
        "waited_ms": 60_000,
    }
    assert record == {
        "commit_id": board.view().projection.tip,
        "at": START_MS,
        "role": "reconciler",
        "principal": PRINCIPAL,
        "attempts": 5,
        "source": "host_api",
    }
    assert found["next"] == "callboard reconcile"


def test_what_a_checkpoint_forgot_is_called_so(board: StagedBoard) -> None:
    unresolved(board)
    compaction.compact(board.publisher, board.actor("administrator"))
    found = listed(board, "a")
    assert found["stage"] == "unresolved"
    assert found["evidence"]["record"] == {"before_checkpoint": True}
    assert found["evidence"]["launch_reason"] == "launch_timeout"
    assert found["evidence"]["sender"]["run_id"] == "99"
    assert found["next"] == "callboard reconcile"


@pytest.mark.parametrize("reason", sorted(CONFLICTS))
@pytest.mark.parametrize("state", ["uncertain", "unresolved"])
def test_runs_that_contradict_each_other_lead_to_their_trace(
    board: StagedBoard, reason: str, state: Stage
) -> None:
    started(board)
    board.doubt(of_launch(board), "uncertain", reason)
    if state == "unresolved":
        board.doubt(of_launch(board), "unresolved", reason)
    found = listed(board, "a")
    assert (found["column"], found["stage"], found["reason"]) == ("stuck", state, reason)
    assert found["next"] == f"callboard trace --dispatch {of_launch(board)}"
    view = board.view()
    of_grant = receipt(view, request_of(view.projection, "g"))
    expected = reason if reason == "run_binding_conflict" else f"launch_{state}"
    assert of_grant["status"] == of_grant["dispatches"][0]["status"] == expected
    assert of_grant["dispatches"][0]["reason"] == reason


def test_the_words_of_contradictions_are_those_of_the_ledger() -> None:
    assert {*CONFLICTS} == {"run_binding_conflict", "rerun_without_authority"}


def test_a_granted_node_is_stuck_while_grants_are_paused(board: StagedBoard) -> None:
    granted(board)
    board.clock.advance(5_000)
    board.pause("grants_paused")
    found = listed(board, "a")
    assert (found["column"], found["stage"], found["reason"]) == (
        "stuck",
        "granted",
        "grants_paused",
    )
    assert found["evidence"]["pause"]["reason"] == "test"
    assert found["evidence"]["pause"]["since_ms"] == START_MS + 5_000
    assert found["next"] == "callboard resume grants --reason CODE"
    board.pause("grants_paused", value=False)
    assert listed(board, "a")["column"] == "running"


@pytest.mark.parametrize(
    ("stage", "reason", "next_step"),
    [
        ("granted", "launch_overdue", "callboard run"),
        ("started", "launch_overdue", "callboard reconcile"),
        ("completed_pending", "delivery_pending", "callboard reconcile"),
    ],
)
def test_what_is_overdue_says_since_when_and_what_to_type(
    board: StagedBoard, stage: str, reason: str, next_step: str
) -> None:
    WAYS[stage](board)
    board.clock.advance(DEADLINE_MS)
    assert listed(board, "a")["column"] == "running"
    board.clock.advance(1)
    found = listed(board, "a")
    assert (found["column"], found["stage"], found["reason"]) == ("stuck", stage, reason)
    assert found["evidence"]["waited_ms"] == DEADLINE_MS + 1
    assert found["evidence"]["record"]["at"] == START_MS
    assert found["next"] == next_step


def test_a_failed_delivery_shows_the_record_and_leads_to_a_replacement(
    board: StagedBoard,
) -> None:
    failed(board)
    found = listed(board, "a")
    assert found["evidence"]["record"]["role"] == "reconciler"
    assert found["evidence"]["record"]["attempts"] == 5
    assert found["evidence"]["record"]["commit_id"] == found["evidence"]["commit_id"]
    assert found["next"].split()[:3] == ["callboard", "replace", "a"]


def test_stages_of_a_real_life_are_told_apart_from_columns(board: StagedBoard) -> None:
    """Used-up attempts end a node, and are stuck all the same."""
    board.submit(node("a"), node("b", "a"))
    for _attempt in range(3):
        board.do("a", "cancelled")
        board.clock.advance(30_000)
    found = listed(board, "a")
    assert (found["column"], found["stage"]) == ("stuck", "cancelled")
    assert found["evidence"]["record"]["role"] == "worker"
    blocked = listed(board, "b")
    assert (blocked["column"], blocked["stage"]) == ("stuck", "waiting")
    assert "record" not in blocked["evidence"]
