"""A store on another machine: hoped for upon the known tip, answered upon the present one."""

from __future__ import annotations

import pytest

from callboard.board.publishing.intents import Nothing
from callboard.board.publishing.publisher import Accepted, Publisher
from callboard.board.storage.memory import MemoryStore
from callboard.board.storage.store import Appended, LedgerTip, LostRace
from callboard.clock import FixedClock
from callboard.errors import CallboardError
from tests.board.building import START_MS
from tests.board.publishing.test_publisher import ask, sound
from tests.board.reading.staged_board import StagedBoard, node


class FarStore(MemoryStore):
    """Counts the calls that would cross a network. `answers` are raised by the next appends,
    after the write where they say so."""

    is_far = True

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.calls: list[str] = []
        self.answers: list[tuple[str, bool]] = []

    def revision(self) -> str | None:
        self.calls.append("look")
        return super().revision()

    def read(self) -> LedgerTip:
        self.calls.append("read")
        return super().read()

    def append(self, base: LedgerTip, lines: bytes, *, message: str) -> Appended | LostRace:
        self.calls.append("append")
        code, arrives = self.answers.pop(0) if self.answers else ("", True)
        calls = list(self.calls)
        outcome = super().append(base, lines, message=message) if arrives else LostRace()
        # How the store in memory goes about it is no call of ours.
        self.calls = calls
        if code:
            raise CallboardError(code, "the connection broke")
        return outcome

    def taken(self) -> list[str]:
        calls, self.calls = self.calls, []
        return calls


class Far:
    """A board with six ready nodes on a far store, and two publishers to it."""

    def __init__(self) -> None:
        self.board = StagedBoard()
        self.board.submit(*[node(f"n{number}") for number in range(6)])
        self.store = FarStore(self.board.data)
        self.board.store = self.store
        self.mine, self.other = self.publisher(), self.publisher()
        self.mine.refresh()
        self.other.refresh()
        self.store.taken()

    def publisher(self, patience_s: float = 30.0) -> Publisher:
        return Publisher(
            self.store, FixedClock(START_MS), pause=lambda _s: None, patience_s=patience_s
        )

    def ask(self, publisher: Publisher, request_id: str) -> Accepted | Nothing:
        return ask(self.board, publisher, request_id)


def test_a_request_upon_the_known_tip_asks_nobody_first() -> None:
    far = Far()
    for number in range(3):
        assert isinstance(far.ask(far.mine, f"mine{number}"), Accepted)
    assert far.store.taken() == ["append"] * 3
    sound(far.board)


def test_a_lost_race_is_read_once_and_decided_anew() -> None:
    far = Far()
    far.ask(far.other, "theirs")
    far.store.taken()
    outcome = far.ask(far.mine, "mine")
    assert isinstance(outcome, Accepted)
    assert far.store.taken() == ["append", "read", "append"]
    projection = far.mine.refresh().projection
    (claim_id,) = outcome.request.claims
    assert projection.works[projection.claims[claim_id].claim.work_id].work.node_key == "n1"
    sound(far.board)


def test_nothing_is_answered_only_upon_a_tip_just_read() -> None:
    far = Far()
    for number in range(6):
        far.ask(far.mine, f"mine{number}")
    far.store.taken()
    assert far.ask(far.mine, "more") == Nothing("no_work", {"pool": "default"})
    assert far.store.taken() == ["look"]
    far.board.publisher = far.other
    far.board.submit(node("late"))
    assert isinstance(far.ask(far.mine, "more"), Accepted)
    sound(far.board)


def test_a_refusal_upon_an_old_tip_is_no_answer() -> None:
    far = Far()
    far.board.publisher = far.other
    far.board.pause("grants_paused")
    far.mine.refresh()
    far.board.publisher = far.other
    far.board.pause("grants_paused", False)
    assert isinstance(far.ask(far.mine, "mine"), Accepted)


def test_a_request_that_stands_is_recognised_though_this_process_has_not_read_it() -> None:
    far = Far()
    first = far.ask(far.other, "same")
    assert isinstance(first, Accepted)
    again = far.ask(far.mine, "same")
    assert isinstance(again, Accepted)
    assert again.replayed
    assert again.request == first.request


@pytest.mark.parametrize("arrives", [True, False])
def test_an_unknown_outcome_is_looked_for_and_redone_only_where_it_is_missing(
    arrives: bool,
) -> None:
    far = Far()
    far.store.answers = [("outcome_unknown", arrives)]
    outcome = far.ask(far.mine, "mine")
    assert isinstance(outcome, Accepted)
    assert outcome.replayed is arrives
    assert far.store.taken() == ["append", "read"] + ([] if arrives else ["append"])
    assert far.mine.refresh().projection.counters.claims == 1
    sound(far.board)


def test_an_outcome_that_stays_unknown_is_told_as_such() -> None:
    far = Far()
    far.store.answers = [("outcome_unknown", False)] * 10
    with pytest.raises(CallboardError) as unknown:
        far.ask(far.mine, "mine")
    assert unknown.value.code == "outcome_unknown"
    assert unknown.value.details["request_id"] == "mine"
    assert far.store.taken().count("append") == 3
    far.store.answers = []
    assert isinstance(far.ask(far.mine, "mine"), Accepted)
    sound(far.board)


def test_a_slow_unknown_outcome_is_looked_for_beyond_the_deadline() -> None:
    far = Far()
    hasty = far.publisher(patience_s=0)
    hasty.refresh()
    far.store.answers = [("outcome_unknown", True)]
    assert isinstance(far.ask(hasty, "mine"), Accepted)


def test_a_refused_push_ends_at_once() -> None:
    far = Far()
    far.store.answers = [("push_refused", False)]
    with pytest.raises(CallboardError) as refused:
        far.ask(far.mine, "mine")
    assert refused.value.code == "push_refused"
    assert far.store.taken() == ["append"]
    sound(far.board)


def test_a_steady_pass_looks_once_and_sees_its_own_writes() -> None:
    far = Far()
    with far.mine.steady():
        for _ in range(3):
            far.mine.refresh()
        assert far.store.taken() == ["look"]
        far.ask(far.other, "theirs")
        far.store.taken()
        assert "theirs" not in far.mine.refresh().projection.requests
        far.ask(far.mine, "mine")
        assert {"theirs", "mine"} <= set(far.mine.refresh().projection.requests)
        assert far.store.taken() == ["append", "read", "append"]
    far.mine.refresh()
    assert far.store.taken() == ["look"]
