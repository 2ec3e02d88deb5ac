"""The publication path under races, unknown outcomes and damage."""

from __future__ import annotations

import random

import pytest

from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.protocol import commit as wire
from callboard.board.publishing.intents import DispatchNext, Nothing
from callboard.board.publishing.publisher import DEFAULT_PATIENCE_S, Accepted, Publisher
from callboard.board.storage.memory import MemoryStore
from callboard.clock import FixedClock
from callboard.errors import CallboardError
from tests.board.reading.staged_board import START_MS, StagedBoard, node


def rival(board: StagedBoard) -> StagedBoard:
    """Another publisher on the same store."""
    other = StagedBoard()
    other.store = board.store
    other.publisher = Publisher(board.store, FixedClock(START_MS))
    return other


def sound(board: StagedBoard) -> None:
    """The history kept between calls is the one that a cold reading gives."""
    kept = board.publisher.refresh().projection
    assert state_document(kept) == state_document(History.read(board.data).projection)


class Racing:
    """A store's hook that lets `times` rivals publish first."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.board = StagedBoard()
        self.board.submit(*[node(f"n{number}") for number in range(6)])
        self.rival = rival(self.board)
        self.store = MemoryStore(self.board.data, before_append=self.before)
        self.board.store = self.store
        self.rival.publisher = Publisher(self.store, FixedClock(START_MS))
        self._racing = False

    def before(self, _store: MemoryStore) -> None:
        if self.left > 0 and not self._racing:
            self.left -= 1
            self._racing = True
            self.rival.ask(request_id=f"rival{self.left}")
            self._racing = False

    def publisher(self, patience_s: float = DEFAULT_PATIENCE_S) -> Publisher:
        return Publisher(
            self.store,
            FixedClock(START_MS),
            chance=random.Random(1),
            pause=lambda _seconds: None,
            patience_s=patience_s,
        )


def ask(board: StagedBoard, publisher: Publisher, request_id: str) -> Accepted | Nothing:
    board.publisher = publisher
    return board.ask(request_id=request_id)


def test_a_lost_race_is_decided_anew_on_what_the_winner_left() -> None:
    racing = Racing(times=1)
    outcome = ask(racing.board, racing.publisher(), "mine")
    assert isinstance(outcome, Accepted)
    projection = racing.board.view().projection
    (claim_id,) = outcome.request.claims
    assert projection.works[projection.claims[claim_id].claim.work_id].work.node_key == "n1"
    assert outcome.source == projection.requests["rival0"].id
    sound(racing.board)


def test_losing_until_the_deadline_is_contention_and_nothing_is_written() -> None:
    racing = Racing(times=100)
    with pytest.raises(CallboardError) as caught:
        ask(racing.board, racing.publisher(patience_s=0), "mine")
    assert caught.value.code == "contention"
    racing.left = 0
    assert "mine" not in racing.board.view().projection.requests
    sound(racing.board)


def test_a_winner_that_takes_the_last_work_leaves_nothing_to_write() -> None:
    racing = Racing(times=0)
    for number in range(5):
        ask(racing.board, racing.publisher(), f"take{number}")
    racing.left = 1
    outcome = ask(racing.board, racing.publisher(), "mine")
    assert outcome == Nothing("no_work", {"pool": "default"})


def test_an_unknown_outcome_is_settled_by_asking_again() -> None:
    board = StagedBoard()
    board.submit(node("a"), node("b"))
    failing = [True]

    def after(_store: MemoryStore) -> None:
        if failing.pop():
            raise OSError("the connection broke")

    store = MemoryStore(board.data, after_append=after)
    publisher = Publisher(store, FixedClock(START_MS))
    board.store = store
    with pytest.raises(OSError, match="broke"):
        ask(board, publisher, "mine")
    again = ask(board, publisher, "mine")
    assert isinstance(again, Accepted)
    assert again.replayed
    assert board.view().projection.counters.claims == 1
    sound(board)


def test_a_refused_request_leaves_the_kept_history_as_it_was() -> None:
    board = StagedBoard()
    board.submit(node("a"))
    before = board.data
    for bad in (node("b", priority=1, payload={"t": "x" * 20_000}), node("a", priority=5)):
        with pytest.raises(CallboardError):
            board.submit(bad)
        sound(board)
    assert board.data == before
    board.submit(node("c"))
    sound(board)


def test_time_never_runs_back() -> None:
    board = StagedBoard()
    board.submit(node("a"), node("b"))
    board.clock.advance(-60_000)
    board.grant()
    projection = board.view().projection
    assert [request.at for request in projection.requests.values()] == [START_MS, START_MS]
    assert board.view().at_ms == START_MS


def test_a_request_id_stands_for_what_it_first_meant() -> None:
    board = StagedBoard()
    board.submit(node("a"), node("b"))
    first = board.ask(1, 1, "g")
    assert isinstance(first, Accepted)
    again = board.ask(1, 1, "g")
    assert isinstance(again, Accepted)
    assert (again.replayed, again.request, again.source) == (True, first.request, first.source)
    with pytest.raises(CallboardError) as caught:
        board.ask(2, 1, "g")
    assert caught.value.code == "request_conflict"
    assert caught.value.details["kind"] == "dispatch_next"


def test_a_damaged_ledger_stops_everything_until_it_is_mended() -> None:
    board = StagedBoard()
    board.submit(node("a"))
    good = board.data
    broken = Publisher(MemoryStore(good + b'{"a":\n'), FixedClock(START_MS))
    for _try in range(2):
        with pytest.raises(CallboardError) as caught:
            broken.refresh()
        assert (caught.value.code, caught.value.details["line"]) == ("ledger_invalid", 2)
    parameters = wire.DispatchNextParameters(
        pool="default", max_claims=1, max_dispatches=1, max_bytes=49_152
    )
    intent = DispatchNext("g", board.actor("dispatcher"), parameters)
    with pytest.raises(CallboardError, match="ledger_invalid"):
        broken.publish(intent)
