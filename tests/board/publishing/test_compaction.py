"""Compaction: planned for the tip that is met, written in its place or not at all."""

from __future__ import annotations

import pytest
from msgspec import structs

from callboard.board.ledger.history import History
from callboard.board.publishing import compaction
from callboard.board.publishing.compaction import Plan, Thrift
from callboard.board.publishing.publisher import Accepted, Compacted, Publisher
from callboard.board.storage.memory import MemoryStore
from callboard.board.storage.store import Appended, LedgerTip, LostRace
from callboard.clock import FixedClock
from callboard.errors import CallboardError
from tests.board.projection import audit
from tests.board.reading.staged_board import START_MS, StagedBoard, node


def staged() -> StagedBoard:
    board = StagedBoard()
    board.submit(node("a"), node("b", after=["a"]), node("c"))
    board.do("a")
    board.grant()
    return board


def rival_of(board: StagedBoard) -> StagedBoard:
    """Another process on the same ledger."""
    rival = StagedBoard()
    rival.store = board.store
    rival.publisher = Publisher(board.store, FixedClock(START_MS))
    rival._requests = 100
    return rival


def compacted(board: StagedBoard) -> Plan:
    return compaction.compact(board.publisher, board.actor("administrator"))


def test_a_plan_writes_nothing_and_says_what_would_be_written() -> None:
    board = staged()
    tip = board.store.read()
    history = board.view().history
    found = compaction.plan(
        history, str(tip.revision), START_MS, board.actor("administrator")
    ).document()
    assert board.store.read() == tip
    assert found["before"] == {"commits": len(history.spans), "bytes": len(tip.data)}
    assert found["prior_git_sha"] == tip.revision
    assert found["prior_tip"] == history.projection.tip
    made = compacted(board).document()
    assert made == found


def test_a_board_goes_on_behind_its_checkpoint() -> None:
    board = staged()
    before = board.view().projection
    repeated = board.ask(request_id="g1")
    old = board.store.read()
    compacted(board)
    tip = board.store.read()
    assert tip.data.count(b"\n") == 1
    assert board.store.ledger_at(str(old.revision)) == old.data
    assert board.view().projection.counters.work == before.counters.work
    again = board.ask(request_id="g1")
    assert isinstance(repeated, Accepted)
    assert isinstance(again, Accepted)
    assert again.request == structs.replace(repeated.request, works=())
    assert (again.source, again.replayed) == (repeated.source, True)
    with pytest.raises(CallboardError) as caught:
        board.ask(claims=2, request_id="g1")
    assert caught.value.code == "request_conflict"
    board.submit(node("d"))
    compacted(board)
    board.submit(node("e"))
    cold = History.read(board.data, board.store.ledger_at)
    assert audit.document(cold.projection) == audit.document(board.view().projection)
    assert cold.prefix(2).projection.counters.work == 3


def test_another_process_goes_on_too() -> None:
    board = staged()
    other = Publisher(board.store, FixedClock(START_MS))
    other.refresh()
    compacted(board)
    history = other.refresh()
    assert history.base == history.projection.ordinal - 1
    board.submit(node("z"))
    assert other.refresh() is history
    assert other.refresh().projection.counters.work == 4


class Rival:
    """Writes before each attempt of the board's, `times` times."""

    def __init__(self, board: StagedBoard, times: int) -> None:
        self.board = rival_of(board)
        self.left = times
        self._busy = False
        board.store._before_append = self

    def __call__(self, _store: MemoryStore) -> None:
        if not self._busy and self.left:
            self._busy, self.left = True, self.left - 1
            self.board.submit(node(f"r{self.left}"))
            self._busy = False


def test_a_lost_race_is_planned_anew() -> None:
    board = staged()
    rival = Rival(board, 2)
    board.publisher._patience_s = 30
    made = compacted(board)
    assert made.commits == len(rival.board.view().projection.commit_ids) - 1
    assert rival.board.view().projection.counters.work == 5


def test_too_much_contention_leaves_everything_as_it_was() -> None:
    board = staged()
    rival = Rival(board, 1_000)
    with pytest.raises(CallboardError) as caught:
        compacted(board)
    assert caught.value.code == "contention"
    assert board.view().history.base == 0
    assert board.view().projection.counters.work == 3 + 1_000 - rival.left > 3


@pytest.mark.parametrize("stands", [True, False])
def test_a_lost_answer_is_settled_by_looking(stands: bool) -> None:
    board = staged()
    failures = iter([True])

    def lost(_store: MemoryStore) -> None:
        if next(failures, False):
            raise CallboardError("outcome_unknown", "the disk failed", "")

    if stands:
        board.store._after_append = lost
    else:
        board.store._before_append = lost
        board.publisher._patience_s = 30
    compacted(board)
    assert board.view().history.base == board.view().projection.ordinal - 1
    checkpoints = [one for one in board.view().projection.requests.values() if is_checkpoint(one)]
    assert len(checkpoints) == 1


@pytest.mark.parametrize("code", ["remote_unreachable", "remote_timeout"])
def test_a_doubt_that_no_look_can_settle_stays_a_doubt(code: str) -> None:
    board = staged()
    board.view()

    class Away(MemoryStore):
        """Takes the line, loses the answer, and is out of reach from then on."""

        is_away = False

        def read(self) -> LedgerTip:
            if self.is_away:
                raise CallboardError(code, "out of reach", "")
            return super().read()

        def replace(self, base: LedgerTip, ledger: bytes, *, message: str) -> Appended | LostRace:
            super().replace(base, ledger, message=message)
            self.is_away = True
            raise CallboardError("outcome_unknown", "the answer was lost", "", {"ref": "x"})

    store = Away(board.data)
    board.store, board.publisher = store, Publisher(store, FixedClock(START_MS))
    with pytest.raises(CallboardError) as caught:
        compacted(board)
    assert caught.value.code == "outcome_unknown"
    assert caught.value.details == {"ref": "x"}
    store.is_away = False
    assert board.data.count(b"\n") == 1


def test_doubts_are_bounded() -> None:
    board = staged()
    tries = []

    def lost(_store: MemoryStore) -> None:
        tries.append("lost")
        raise CallboardError("outcome_unknown", "the answer was lost", "")

    board.store._before_append = lost
    board.publisher._patience_s = 30
    board.publisher._pause = lambda _s: None
    with pytest.raises(CallboardError) as caught:
        compacted(board)
    assert caught.value.code == "outcome_unknown"
    assert len(tries) == 3


def test_a_checkpoint_that_others_have_built_upon_since_is_found() -> None:
    board = staged()
    rival = rival_of(board)

    def lost(store: MemoryStore) -> None:
        store._after_append = None
        rival.submit(node("r"))
        raise CallboardError("outcome_unknown", "the answer was lost", "")

    board.store._after_append = lost
    compacted(board)
    requests = board.view().projection.requests.values()
    assert [is_checkpoint(one) for one in requests].count(True) == 1
    assert board.view().projection.counters.work == 4


def is_checkpoint(request: object) -> bool:
    return getattr(request, "kind", None) == "checkpoint"


def test_an_empty_board_has_nothing_to_compact() -> None:
    board = StagedBoard()
    with pytest.raises(CallboardError) as caught:
        compacted(board)
    assert caught.value.code == "queue_missing"


def test_what_a_reader_would_refuse_is_not_written() -> None:
    board = staged()
    tip = board.store.read()

    def broken(_history: History, _revision: str, _at: int) -> Compacted:
        return Compacted(b'{"version":3}\n', "broken")

    with pytest.raises(CallboardError) as caught:
        board.publisher.compact(broken)
    assert caught.value.code == "ledger_invalid"
    assert board.store.read() == tip


# --- when it is worth it -------------------------------------------------------------------------


def test_nothing_is_due_below_the_share_and_nothing_ever_at_zero() -> None:
    projection = staged().view().projection
    limit = projection.policy.limits.ledger_bytes
    for percent in (1, 10, 19, 50, 100):
        thrift = Thrift(percent)
        share = limit * percent // 100
        for used, due in ((share - 1, False), (share, True), (limit, True)):
            projection.ledger_bytes = used
            assert thrift.is_due(projection) is due
            assert not Thrift(0).is_due(projection)


def test_a_compaction_that_frees_little_is_refused_and_not_repeated_at_once() -> None:
    board = staged()
    projection = board.view().projection
    thrift = Thrift(1)
    tip = board.store.read()
    with pytest.raises(CallboardError) as caught:
        compaction.compact(board.publisher, board.actor("administrator"), thrift)
    assert caught.value.code == "checkpoint_unprofitable"
    assert board.store.read() == tip
    used = 1024 * 1024
    thrift.give_up(used)
    for size, due in ((used + used // 4 - 1, False), (used + used // 4, True)):
        projection.ledger_bytes = size
        assert thrift.is_due(projection) is due


def test_at_the_brim_a_checkpoint_makes_room_again() -> None:
    board = StagedBoard()
    narrow = structs.replace(
        board._policy, limits=structs.replace(board._policy.limits, ledger_bytes=60_000)
    )
    board._policy = narrow
    refused = None
    for number in range(100):
        try:
            board.submit(node(f"n{number}", payload={"text": "x" * 6_000}))
        except CallboardError as error:
            refused = error
            break
    assert refused is not None
    assert (refused.code, refused.details["limit"]) == ("ledger_limit", "room_to_grant")
    made = compacted(board)
    assert made.after_bytes < made.ledger_bytes
    assert len(board.grant()) == 1
    board.submit(node("more", payload={"text": "x" * 6_000}))
