"""The contract of `LedgerStore`: every store's test module inherits it and gives a bench."""

from __future__ import annotations

import threading
from typing import Protocol

import pytest

from callboard.board.storage.store import Appended, LedgerStore, LedgerTip, LostRace
from callboard.errors import CallboardError

ONE, TWO, THREE = b'{"n":1}\n', b'{"n":2}\n', b'{"n":3}\n'


class Bench(Protocol):
    """One ledger: `open` gives a further handle on it, `install` replaces its bytes."""

    def open(self) -> LedgerStore: ...

    def install(self, data: bytes) -> None: ...


def appended(store: LedgerStore, lines: bytes) -> LedgerTip:
    """Append behind the present tip, which must succeed."""
    answer = store.append(store.read(), lines, message="append")
    assert isinstance(answer, Appended)
    return answer.tip


# What is no ledger and no addition to one: its bytes, and the cause, line and byte of the refusal.
BROKEN = [
    (b"", "empty_ledger", 1, 0),
    (ONE + b'{"n":', "truncated_line", 2, 8),
    (b'{"n":1}', "truncated_line", 1, 0),
    (ONE + TWO + b" ", "truncated_line", 3, 16),
    (ONE + b'{"a":"\0', "truncated_line", 2, 8),
    (ONE + b"\n" + TWO, "blank_line", 2, 8),
    (b"\n" + ONE, "blank_line", 1, 0),
    (b"\r\n", "blank_line", 1, 0),
    (ONE + b" \t\n", "blank_line", 2, 8),
    (ONE + b"\n" + b'{"n":', "blank_line", 2, 8),
    (ONE + b'{"a":"\0"}\n', "invalid_json", 2, 14),
    (b"\0" * 20, "invalid_json", 1, 0),
]


def assert_refused(error: CallboardError, cause: str, line: int, byte: int) -> None:
    """`error` is `ledger_invalid` for this cause at this place, and says so to people too."""
    assert error.code == "ledger_invalid"
    assert set(error.details) == {"cause", "line", "byte", "where"}
    assert [error.details[name] for name in ("cause", "line", "byte")] == [cause, line, byte]
    assert f"line {line}, byte {byte}" in error.message
    assert error.hint


class StoreContract:
    """What a publisher may rely on, whatever the store."""

    def test_an_absent_ledger_is_an_empty_queue(self, bench: Bench) -> None:
        store = bench.open()
        assert store.revision() is None
        assert store.read() == LedgerTip(None, b"")

    def test_the_first_append_creates_the_ledger(self, bench: Bench) -> None:
        store = bench.open()
        tip = appended(store, ONE)
        assert tip.data == ONE
        assert tip.revision == store.revision() == bench.open().revision()
        assert bench.open().read() == store.read() == tip

    def test_appends_accumulate_in_order(self, bench: Bench) -> None:
        store = bench.open()
        revisions = [appended(store, lines).revision for lines in (ONE, TWO + THREE, ONE)]
        assert store.read().data == bench.open().read().data == ONE + TWO + THREE + ONE
        assert len(set(revisions)) == 3

    def test_a_stale_base_loses_and_writes_nothing(self, bench: Bench) -> None:
        store, other = bench.open(), bench.open()
        absent = store.read()
        first = appended(other, ONE)
        assert store.append(absent, TWO, message="late") == LostRace()
        second = appended(store, TWO)
        assert other.append(first, THREE, message="late") == LostRace()
        assert other.append(absent, THREE, message="late") == LostRace()
        assert bench.open().read() == second

    def test_a_base_of_an_unknown_revision_loses(self, bench: Bench) -> None:
        store = bench.open()
        assert store.append(LedgerTip("0" * 40, ONE), TWO, message="x") == LostRace()
        assert store.revision() is None

    def test_a_base_with_other_bytes_is_refused(self, bench: Bench) -> None:
        store = bench.open()
        tip = appended(store, ONE)
        with pytest.raises(CallboardError) as refused:
            store.append(LedgerTip(tip.revision, TWO), THREE, message="x")
        assert refused.value.code == "append_base_invalid"
        assert bench.open().read() == tip

    @pytest.mark.parametrize(("lines", "cause", "line", "byte"), BROKEN)
    def test_lines_that_are_not_whole_are_refused(
        self, bench: Bench, lines: bytes, cause: str, line: int, byte: int
    ) -> None:
        store = bench.open()
        tip = appended(store, ONE)
        with pytest.raises(CallboardError) as refused:
            store.append(tip, lines, message="x")
        assert_refused(refused.value, cause, line, byte)
        assert bench.open().read() == tip

    @pytest.mark.parametrize(("data", "cause", "line", "byte"), BROKEN)
    def test_a_broken_ledger_is_refused_and_stays(
        self, bench: Bench, data: bytes, cause: str, line: int, byte: int
    ) -> None:
        bench.install(data)
        store = bench.open()
        before = store.revision()
        for act in (
            store.read,
            lambda: store.append(LedgerTip(before, data), ONE, message="x"),
        ):
            with pytest.raises(CallboardError) as refused:
                act()
            assert_refused(refused.value, cause, line, byte)
        assert store.revision() == before is not None

    def test_lines_with_carriage_returns_and_spaces_are_lines(self, bench: Bench) -> None:
        data = b' {"n" : 1}\r\n{"n":2}\n'
        bench.install(data)
        store = bench.open()
        assert store.read().data == data
        assert appended(store, ONE).data == data + ONE

    def test_a_ledger_of_megabytes_comes_back_whole(self, bench: Bench) -> None:
        lines = b"".join(b'{"n":%d,"pad":"%s"}\n' % (n, b"x" * 200) for n in range(12_000))
        tip = appended(bench.open(), lines)
        assert bench.open().read() == tip
        assert tip.data == lines

    def test_more_than_a_reader_takes_is_refused(self, bench: Bench) -> None:
        store = bench.open()
        line = b'"' + b"x" * (80 * 1024 * 1024 - 2) + b"\n"
        with pytest.raises(CallboardError) as refused:
            store.append(store.read(), line + ONE, message="x")
        assert refused.value.code == "ledger_invalid"
        assert refused.value.details["cause"] == "resource_limit"
        assert refused.value.details["bytes"] == len(line + ONE)
        assert refused.value.details["limit_bytes"] == len(line)
        assert store.revision() is None

    def test_contending_threads_land_once_each(self, bench: Bench) -> None:
        handles = [bench.open() for _ in range(4)]
        start = threading.Barrier(len(handles))

        def work(number: int) -> None:
            start.wait()
            for count in range(5):
                lines = b'{"by":%d,"n":%d}\n' % (number, count)
                while isinstance(
                    handles[number].append(handles[number].read(), lines, message="race"), LostRace
                ):
                    pass

        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(handles))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = bench.open().read().data.splitlines()
        assert len(lines) == len(set(lines)) == 20

    def test_threads_may_share_a_handle(self, bench: Bench) -> None:
        store = bench.open()

        def work(number: int) -> None:
            lines = b'{"by":%d}\n' % number
            while isinstance(store.append(store.read(), lines, message="race"), LostRace):
                pass

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(store.read().data.splitlines())) == 6

    def test_messages_of_any_text_are_taken(self, bench: Bench) -> None:
        store = bench.open()
        for message in ("", "\0\n\udc80", "é" * 5000, "-x\n\nbody"):
            answer = store.append(store.read(), ONE, message=message)
            assert isinstance(answer, Appended)
        assert store.read().data == ONE * 4
