"""What was granted and can no longer start is given back once, and only while that is so."""

from __future__ import annotations

from callboard.board.protocol import operations as ops
from callboard.board.publishing import lifecycle
from callboard.board.publishing.intents import Nothing
from callboard.board.publishing.publisher import Accepted
from tests.board.reading.staged_board import StagedBoard, node

ONE_ATTEMPT = "[work_queue]\nretry = {max_attempts = 1, backoff_seconds = 1}\n"


def hand_back(board: StagedBoard, dispatch_id: str) -> Accepted | Nothing:
    return board.publisher.publish(
        lifecycle.hand_back(dispatch_id, "drained", board.actor("reconciler"))
    )


def granted(board: StagedBoard, *keys: str) -> str:
    """The one group that the nodes of those keys are granted in."""
    board.submit(*(node(key) for key in keys))
    claims = board.grant(len(keys))
    (dispatch_id,) = {board.dispatch_of(one) for one in claims}
    return dispatch_id


def refused(answer: Accepted | Nothing) -> str:
    assert isinstance(answer, Nothing), answer
    return answer.reason


def test_the_nodes_wait_for_another_attempt_at_their_old_place() -> None:
    board = StagedBoard()
    dispatch_id = granted(board, "a")
    place = board.view().projection.works[board.work_id("a")].place
    board.pause("grants_paused")
    answer = hand_back(board, dispatch_id)
    assert isinstance(answer, Accepted)
    assert not answer.replayed
    projection = board.view().projection
    work = projection.works[board.work_id("a")]
    assert (work.state, work.attempts, work.place) == ("available", 1, place)
    assert work.retry_not_before == board.clock.now_ms() + 30_000
    assert not projection.open_dispatches
    again = hand_back(board, dispatch_id)
    assert isinstance(again, Accepted)
    assert again.replayed


def test_what_may_start_after_all_is_left_alone() -> None:
    board = StagedBoard()
    dispatch_id = granted(board, "a")
    assert refused(hand_back(board, dispatch_id)) == "grants_open"
    board.start(dispatch_id)
    board.pause("grants_paused")
    assert refused(hand_back(board, dispatch_id)) == "not_reserved"
    board.bind(dispatch_id)
    assert refused(hand_back(board, dispatch_id)) == "not_reserved"
    board.release(dispatch_id)
    assert board.view().projection.dispatches[dispatch_id].conclusion == "success"


def test_a_last_attempt_is_never_taken() -> None:
    board = StagedBoard(ONE_ATTEMPT, "max_claims = 2\n")
    dispatch_id = granted(board, "a", "b")
    board.pause("grants_paused")
    answer = hand_back(board, dispatch_id)
    assert refused(answer) == "attempts_spent"
    assert isinstance(answer, Nothing)
    assert answer.details == {"works": [board.work_id("a"), board.work_id("b")]}
    # A member that was cancelled has nothing to lose.
    board.cancel("a")
    board.cancel("b")
    assert isinstance(hand_back(board, dispatch_id), Accepted)


def test_members_that_have_ended_are_not_ended_again() -> None:
    board = StagedBoard("", "max_claims = 2\n")
    dispatch_id = granted(board, "a", "b")
    board.cancel("a")
    board.pause("grants_paused")
    assert isinstance(hand_back(board, dispatch_id), Accepted)
    history = board.view().history
    last = history.commit(history.projection.ordinal - 1)
    kinds = [type(one) for one in last.operations]
    assert kinds == [ops.ClaimCancellation, ops.Release]
    states = {one.work.node_key: one.state for one in history.projection.works.values()}
    assert states == {"a": "cancelled", "b": "available"}
