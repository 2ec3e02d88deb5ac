"""How Claims and Work end: once, by whoever may, and never again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.board.protocol.commit import FinishParameters
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import RECONCILER, refused, work, work_id


def retries(attempts: int, backoff_ms: int = 30_000) -> records.PolicyDocument:
    return make.with_pool(retry=records.Retry(max_attempts=attempts, backoff_ms=backoff_ms))


def fail_once(board: Board, way: str) -> None:
    """Grant the node and lose the attempt in one of the ways there are."""
    assert board.grant() == ["a"]
    if way == "worker":
        group = board.bind("a")
        board.finish("a", "cancelled")
        board.release(group, "terminal_run")
    elif way == "run":
        group = board.bind("a")
        board.release(group, "terminal_run", board.cancellations("a"))
    elif way == "never launched":
        group = board.group("a")
        board.release(group, "prelaunch", board.cancellations("a"))
    else:
        group = board.start("a")
        board.cancel_claim("a")
        board.release(group, "nonlaunch")


@pytest.mark.parametrize("way", ["worker", "run", "never launched", "reconciler"])
@pytest.mark.parametrize("attempts", [1, 3])
def test_exactly_the_allowed_attempts_are_made(way: str, attempts: int) -> None:
    board = Board([work("a"), work("b", after=["a"])], retries(attempts))
    for count in range(1, attempts + 1):
        fail_once(board, way)
        assert board.work("a").attempts == count
        assert board.plan().stop.reason == ("no_eligible_work")
        board.pass_ms(30_000)
    assert board.work("a").state == "cancelled"
    assert board.work("a").cancellation_reason == "attempts_exhausted"
    assert board.projection.counters.claims == attempts
    for _ in range(10):
        board.pass_ms(10**9)
        assert board.plan().winners == []
    assert board.projection.counters.unreleased == 0


def test_the_last_attempt_may_still_succeed() -> None:
    board = Board([work("a")], retries(2))
    fail_once(board, "worker")
    board.pass_ms(30_000)
    board.grant()
    board.settle("a")
    assert board.work("a").barrier == "verified"
    assert board.work("a").attempts == 2


def test_exhausted_work_is_never_left_open() -> None:
    board = Board([work("a")], retries(1))
    board.grant()
    (claim, gone) = board.cancellations("a")
    assert refused(lambda: board.say("cancel_claim", [claim], RECONCILER)).code == (
        "retry_exhausted"
    )
    assert board.work("a").state == "claimed"
    board.say("cancel_claim", [claim, gone], RECONCILER)
    assert board.work("a").state == "cancelled"


def test_waiting_is_no_attempt() -> None:
    """Blocked, delayed, paused, out of capacity or gated: only a Claim counts."""
    board = Board(
        [
            work("busy"),
            work("a"),
            work("b", after=["busy"]),
            work("c", gates=[make.issue_gate()]),
        ],
        make.with_pool(logical_limit=1),
    )
    board.grant()
    for _ in range(10):
        assert board.plan().winners == []
        board.pass_ms(60_000)
    board.control("grants_paused", True)
    assert board.plan().winners == []
    for key in "abc":
        state = board.work(key)
        assert (state.state, state.attempts) == ("available", 0)


@pytest.mark.parametrize("early", [1, 30_000])
def test_a_retry_waits_for_the_backoff(early: int) -> None:
    board = Board([work("a"), work("b")], make.policy())
    board.grant()
    (cancelled,) = board.cancellations("a")
    assert isinstance(cancelled, ops.ClaimCancellation)
    hasty = structs.replace(cancelled, retry_not_before=cancelled.retry_not_before - early)
    error = refused(lambda: board.say("cancel_claim", [hasty], RECONCILER))
    assert error.details == {"earliest_ms": board.at + 30_000}
    longer = structs.replace(cancelled, retry_not_before=board.at + 45_000)
    board.say("cancel_claim", [longer], RECONCILER)
    board.pass_ms(44_999)
    assert board.grant(2) == ["b"]
    board.pass_ms(1)
    assert board.grant(2) == ["a"]


def test_the_backoff_of_a_release_runs_from_its_evidence() -> None:
    board = Board([work("a"), work("b")])
    board.grant(2)
    group = board.bind("a")
    ended = board.at
    board.pass_ms(20_000)
    (cancelled,) = board.cancellations("a")
    assert isinstance(cancelled, ops.ClaimCancellation)
    soon = structs.replace(cancelled, retry_not_before=ended + 30_000)
    board.release(group, "terminal_run", [soon], checked_at=ended)
    # Another group's Release lends no time.
    other = board.start("b")
    (cancelled,) = board.cancellations("b")
    assert isinstance(cancelled, ops.ClaimCancellation)
    soon = structs.replace(cancelled, retry_not_before=ended + 30_000)
    assert refused(lambda: board.say("cancel_claim", [soon], RECONCILER)).code == "retry_too_early"
    assert not board.projection.dispatches[other.assignment.dispatch_id].released


def test_a_cancelled_claim_gives_its_work_back_at_its_old_place() -> None:
    board = Board([work("a"), work("b"), work("c")])
    board.grant()
    claim_id = str(board.work("a").claim_id)
    place = board.work("a").place
    board.cancel_claim("a")
    board.pass_ms(30_000)
    assert board.work("a").place == place
    claim = board.projection.claims[claim_id]
    assert (claim.state, claim.cancellation_reason) == ("cancelled", "run_ended")
    assert board.grant(3) == ["a", "b", "c"]
    assert board.work("a").claim_id != claim_id


def test_cancelling_a_work_ends_its_claim_and_keeps_its_slot() -> None:
    board = Board([work("a"), work("b", after=["a"])])
    board.grant()
    claim_id = str(board.work("a").claim_id)
    group = board.bind("a")
    board.cancel_work("a", claim_id=claim_id)
    assert board.work("a").state == "cancelled"
    claim = board.projection.claims[claim_id]
    assert (claim.state, claim.retry_not_before) == ("cancelled", None)
    assert board.projection.pools["default"].open_claims == 0
    assert board.projection.pools["default"].unreleased == 1
    assert board.work("b").state == "available"
    board.release(group, "terminal_run")


def test_the_fence_is_the_owner_the_caller_saw() -> None:
    board = Board([work("a")])
    board.grant()
    old = str(board.work("a").claim_id)
    board.cancel_claim("a")
    assert refused(lambda: board.cancel_work("a", claim_id=old)).code == "claim_mismatch"
    board.pass_ms(30_000)
    board.grant()
    assert refused(lambda: board.cancel_work("a", claim_id=old)).code == "claim_mismatch"
    board.cancel_work("a", claim_id=str(board.work("a").claim_id))


def ended(how: str) -> Board:
    """A board whose node a is over in one of the ways there are."""
    board = Board([work("a"), work("b", after=["a"])], retries(1))
    if how == "cancelled":
        board.cancel_work("a")
        return board
    board.grant()
    if how == "exhausted":
        group = board.bind("a")
        board.release(group, "terminal_run", board.cancellations("a"))
        return board
    board.complete("a")
    if how == "verified":
        board.verify("a")
    elif how == "failed":
        board.fail_delivery("a")
    return board


@pytest.mark.parametrize("how", ["cancelled", "exhausted", "pending", "verified", "failed"])
def test_what_is_over_stays_over(how: str) -> None:
    """No later record, however often it comes, touches a terminal state (C-11)."""
    board = ended(how)
    state = board.work("a")
    before = board.document()
    claims = [one.claim for one in board.projection.claims.values()]
    attempts: list[Any] = [
        lambda: board.cancel_work("a"),
        lambda: board.submit([work("a", priority=1)]),
    ]
    if claims:
        gone = ops.ClaimCancellation(
            work_id=work_id("a"),
            claim_id=claims[0].claim_id,
            reason="lease_expired",
            retry_not_before=board.at + 10**6,
        )
        attempts.append(lambda: board.say("cancel_claim", [gone], RECONCILER))
        attempts.append(lambda: board.say("release", [gone, _release(board)], RECONCILER))
    if how in ("verified", "failed"):
        attempts.append(lambda: board.verify("a", descriptor={"other": 1}))
        other = board.evidence(
            board.group("a"), "terminal_run", attempts=5, effects="partial", receipt="r"
        )
        attempts.append(lambda: board.fail_delivery("a", disposition="partial", evidence=other))
    for _ in range(3):
        board.pass_ms(10**7)
        for attempt in attempts:
            assert refused(attempt).code in (
                "work_closed",
                "work_conflict",
                "claim_closed",
                "barrier_closed",
                "dispatch_released",
            )
        assert [one.state.work.node_key for one in board.plan(9).winners] == (
            ["b"] if how == "verified" else []
        )
    assert board.work("a") == state
    assert board.document() == before


def _release(board: Board) -> ops.Release:
    group = next(iter(board.projection.dispatches.values()))
    return ops.Release(
        dispatch_id=group.assignment.dispatch_id,
        evidence=board.evidence(group, "terminal_run"),
    )


def test_a_late_finish_meets_a_closed_claim() -> None:
    board = Board([work("a")])
    board.grant()
    group = board.bind("a")
    claim = board.projection.claims[str(board.work("a").claim_id)].claim
    done = ops.Completion(
        work_id=claim.work_id,
        claim_id=claim.claim_id,
        dispatch_id=claim.dispatch_id,
        claim_handle="h1",
        run_id=board.run(group).run_id,
        run_attempt=1,
    )
    board.cancel_claim("a")
    parameters = FinishParameters(
        dispatch_id=claim.dispatch_id, claim_handle="h1", outcome="completed"
    )
    error = refused(lambda: board.say("finish", [done], board.worker(group), parameters=parameters))
    assert error.code == "claim_closed"
    assert board.work("a").state == "available"


def test_siblings_end_each_for_itself() -> None:
    board = Board([work("a"), work("b"), work("c"), work("d", after=["a", "c"])], make.batching())
    assert board.grant(4) == ["a", "b", "c"]
    group = board.bind("a")
    board.finish("a")
    board.finish("b", "cancelled")
    board.release(group, "terminal_run", board.cancellations("c"))
    assert [board.work(key).state for key in "abc"] == ["completed", "available", "available"]
    board.verify("a")
    assert board.work("d").blocked == 1
    board.pass_ms(30_000)
    assert board.grant(4) == ["b", "c"]
    board.complete("c")
    board.verify("c")
    assert board.work("d").blocked == 0
