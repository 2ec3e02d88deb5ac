"""The store in memory: the contract, and the two moments at which others may step in."""

from __future__ import annotations

import pytest

from callboard.board.storage.memory import MemoryStore
from callboard.board.storage.store import Appended, LostRace
from tests.board.storage.contract import ONE, TWO, Bench, StoreContract, appended


class _MemoryBench:
    def __init__(self) -> None:
        self._store = MemoryStore()

    def open(self) -> MemoryStore:
        return self._store

    def install(self, data: bytes) -> None:
        self._store = MemoryStore(data)


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def bench(self) -> Bench:
        return _MemoryBench()


def test_another_writer_may_be_let_in_front() -> None:
    pending = [TWO]

    def other(store: MemoryStore) -> None:
        if pending:
            appended(store, pending.pop())

    store = MemoryStore(ONE, before_append=other)
    assert store.append(store.read(), ONE, message="first") == LostRace()
    assert isinstance(store.append(store.read(), ONE, message="again"), Appended)
    assert store.read().data == ONE + TWO + ONE


def test_an_outcome_may_be_lost_after_the_write() -> None:
    def lost(_store: MemoryStore) -> None:
        raise ConnectionError

    store = MemoryStore(after_append=lost)
    with pytest.raises(ConnectionError):
        store.append(store.read(), ONE, message="x")
    assert store.read().data == ONE


def test_a_tip_shows_no_bytes() -> None:
    assert "n" not in repr(MemoryStore(ONE).read()).replace("revision", "").replace("Tip", "")
