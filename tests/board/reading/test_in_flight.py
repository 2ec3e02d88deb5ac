"""What is in flight, kind by kind: its stage, its members, and the next command."""

from __future__ import annotations

import pytest

from callboard.board.reading.in_flight import MAX_LEFT, InFlight, in_flight
from callboard.board.reading.view import Document
from tests.board.reading.staged_board import START_MS, StagedBoard, node

ONE_ATTEMPT = "[work_queue]\nretry = {max_attempts = 1, backoff_seconds = 1}\n"


def left(board: StagedBoard) -> list[Document]:
    return InFlight(board.view()).all()


def drained(board: StagedBoard, *, admission: bool = False) -> Document:
    view = board.view()
    return in_flight(view, InFlight(view).all(), admission=admission)


def test_a_reservation_at_each_stage(board: StagedBoard) -> None:
    board.submit(node("a"))
    assert left(board) == []
    (claim_id,) = board.grant()
    dispatch_id = board.dispatch_of(claim_id)

    def stage() -> tuple[str, str]:
        (found,) = left(board)
        assert (found["kind"], found["names"], found["dispatch_id"]) == ("run", ["a"], dispatch_id)
        assert (found["open_claims"], found["work_count"]) == (1, 1)
        return found["stage"], found["next"]

    assert stage() == ("granted", "callboard drain")
    board.clock.advance(5)
    board.start(dispatch_id)
    assert stage() == ("started", "callboard drain")
    assert left(board)[0]["since_ms"] == START_MS + 5
    assert left(board)[0]["sender_run_id"] == "99"
    board.doubt(dispatch_id, "uncertain")
    assert stage() == ("uncertain", "callboard drain")
    board.doubt(dispatch_id, "unresolved")
    assert stage() == ("unresolved", "callboard reconcile")
    assert left(board)[0]["launch_reason"] == "launch_timeout"
    assert drained(board)["unresolved"] == 1
    board.bind(dispatch_id)
    assert stage() == ("bound", "callboard drain")
    board.finish(claim_id, "completed")
    run, delivery = left(board)
    assert (run["stage"], run["open_claims"]) == ("bound", 0)
    assert (delivery["kind"], delivery["stage"]) == ("delivery", "completed_pending")
    assert delivery["run_id"] == run["run_id"]
    board.release(dispatch_id)
    assert [one["kind"] for one in left(board)] == ["delivery"]
    board.deliver("a")
    assert left(board) == []


def test_a_node_that_was_cancelled_holds_its_place_until_its_run_ends(board: StagedBoard) -> None:
    board.submit(node("a"))
    (claim_id,) = board.grant()
    dispatch_id = board.launch(claim_id)
    board.cancel("a")
    (found,) = left(board)
    assert (found["stage"], found["open_claims"], found["names"]) == ("bound", 0, ["a"])
    assert found["next"] == f"callboard stop --dispatch {dispatch_id}"
    board.release(dispatch_id)
    assert left(board) == []


def test_a_last_attempt_that_never_started_is_for_a_person_to_end() -> None:
    board = StagedBoard(ONE_ATTEMPT)
    board.submit(node("a"))
    board.grant()
    (found,) = left(board)
    assert found["next"] == "callboard cancel a --reason not_started"


def test_drained_needs_the_pauses_that_were_asked_for(board: StagedBoard) -> None:
    board.submit(node("a"))
    assert (drained(board)["drained"], drained(board)["count"]) == (False, 0)
    board.pause("grants_paused")
    assert drained(board)["drained"]
    assert drained(board)["pauses"]["grants"]["reason"] == "test"
    assert not drained(board, admission=True)["drained"]
    board.pause("admission_paused")
    assert drained(board, admission=True)["drained"]
    board.pause("grants_paused", False)
    assert not drained(board)["drained"]


def test_the_oldest_come_first_and_no_more_than_fit() -> None:
    board = StagedBoard("[work_queue]\nconcurrency = 200\n")
    board.submit(*(node(f"n{number:03}") for number in range(MAX_LEFT + 5)))
    for _time in range(MAX_LEFT + 5):
        board.grant()
        board.clock.advance(1)
    found = drained(board)
    assert (found["count"], len(found["left"])) == (MAX_LEFT + 5, MAX_LEFT)
    assert [one["names"][0] for one in found["left"][:3]] == ["n000", "n001", "n002"]


@pytest.mark.parametrize("members", [2, 15])
def test_a_group_names_its_first_members_and_counts_all(members: int) -> None:
    board = StagedBoard("[work_queue]\nconcurrency = 20\n", "max_claims = 16\n")
    board.submit(*(node(f"n{number:02}") for number in range(members)))
    board.grant(members)
    (found,) = left(board)
    assert (found["work_count"], len(found["names"])) == (members, min(members, 10))
