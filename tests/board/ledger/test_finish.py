"""What a finish publishes, computed alike by writers and readers."""

from __future__ import annotations

import pytest
from msgspec import structs

from callboard.board.ledger.finish import (
    ATTEMPTS_EXHAUSTED,
    WORKER_CANCELLED,
    finish_operations,
    member_of,
)
from callboard.board.protocol import operations as ops
from callboard.board.protocol.commit import FinishParameters
from callboard.board.protocol.policy import Retry
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import Outcome, refused, work


def bound(attempts: int = 3) -> Board:
    board = Board(
        [work("a"), work("b")],
        make.batching(
            pools={
                "default": make.pool(
                    profiles={"default": make.profile(max_claims=16, share_keys=True)},
                    retry=Retry(max_attempts=attempts, backoff_ms=700),
                )
            }
        ),
    )
    board.grant(2)
    board.bind("a")
    return board


def asked(board: Board, outcome: Outcome = "completed", handle: str = "h1") -> FinishParameters:
    return FinishParameters(
        dispatch_id=board.group("a").assignment.dispatch_id,
        claim_handle=handle,
        outcome=outcome,
    )


def test_completed_is_one_completion_by_the_bound_run() -> None:
    board = bound()
    claim = board.projection.claims[str(board.work("b").claim_id)].claim
    run = board.group("a").run
    assert run is not None
    assert finish_operations(board.projection, asked(board, handle="h2"), board.at) == [
        ops.Completion(
            work_id=make.work_id("b"),
            claim_id=claim.claim_id,
            dispatch_id=claim.dispatch_id,
            claim_handle="h2",
            run_id=run.run_id,
            run_attempt=1,
        )
    ]


@pytest.mark.parametrize("attempts", [1, 2])
def test_cancelled_waits_for_the_backoff_or_ends_the_work(attempts: int) -> None:
    board = bound(attempts)
    first, *rest = finish_operations(board.projection, asked(board, "cancelled"), 5_000)
    assert isinstance(first, ops.ClaimCancellation)
    assert (first.reason, first.retry_not_before) == (WORKER_CANCELLED, 5_700)
    gone = ops.WorkCancellation(work_id=make.work_id("a"), reason=ATTEMPTS_EXHAUSTED)
    assert rest == ([gone] if attempts == 1 else [])


def test_members_are_found_by_their_handle() -> None:
    board = bound()
    dispatch_id = board.group("a").assignment.dispatch_id
    assert member_of(board.projection, dispatch_id, "h2").work_id == make.work_id("b")
    error = refused(lambda: member_of(board.projection, dispatch_id, "h3"))
    assert error.code == "claim_scope_invalid"
    assert "h1, h2" in error.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "tired"},
        {"retry_not_before": make.START_MS + 701},
        {"work_id": make.work_id("b")},
    ],
)
def test_a_reader_takes_nothing_but_the_recomputed_operations(changes: dict[str, object]) -> None:
    board = bound()
    parameters = asked(board, "cancelled")
    (operation,) = finish_operations(board.projection, parameters, board.at)
    actor = board.worker(board.group("a"))
    other = structs.replace(operation, **changes)
    before = board.document()
    error = refused(lambda: board.say("finish", [other], actor, parameters=parameters))
    assert error.code == "finish_mismatch"
    assert board.document() == before
    board.say("finish", [operation], actor, parameters=parameters)
    assert board.work("a").state == "available"


def test_a_cancelled_outcome_never_publishes_a_completion() -> None:
    board = bound()
    (done,) = finish_operations(board.projection, asked(board), board.at)
    actor = board.worker(board.group("a"))
    parameters = asked(board, "cancelled")
    error = refused(lambda: board.say("finish", [done], actor, parameters=parameters))
    assert error.code == "finish_mismatch"
