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

    # --- replacing ------------------------------------------------------------------------------

    def test_a_ledger_is_replaced_as_a_whole(self, bench: Bench) -> None:
        store, other = bench.open(), bench.open()
        before = appended(store, ONE + TWO)
        answer = store.replace(before, THREE, message="replace")
        assert isinstance(answer, Appended)
        assert answer.tip.data == THREE
        assert store.read() == other.read() == bench.open().read() == answer.tip
        assert appended(store, ONE).data == THREE + ONE

    def test_what_was_replaced_stays_within_reach(self, bench: Bench) -> None:
        store = bench.open()
        first = appended(store, ONE)
        second = appended(store, TWO)
        replaced = store.replace(second, THREE, message="replace")
        assert isinstance(replaced, Appended)
        third = appended(store, ONE)
        for tip in (first, second, replaced.tip, third):
            assert tip.revision is not None
            assert store.ledger_at(tip.revision) == tip.data
            assert bench.open().revision() == third.revision

    @pytest.mark.parametrize("revision", ["0" * 40, "0" * 64, "zz", ""])
    def test_a_revision_that_is_not_here_is_unavailable(self, bench: Bench, revision: str) -> None:
        store = bench.open()
        appended(store, ONE)
        with pytest.raises(CallboardError) as refused:
            store.ledger_at(revision)
        assert refused.value.code == "history_unavailable"
        assert refused.value.details == {"revision": revision}

    def test_a_stale_base_replaces_nothing(self, bench: Bench) -> None:
        store, other = bench.open(), bench.open()
        stale = appended(store, ONE)
        tip = appended(other, TWO)
        assert store.replace(stale, THREE, message="late") == LostRace()
        assert store.replace(LedgerTip("0" * 40, ONE), THREE, message="late") == LostRace()
        assert bench.open().read() == tip

    def test_an_absent_ledger_is_not_replaced(self, bench: Bench) -> None:
        store = bench.open()
        with pytest.raises(CallboardError) as refused:
            store.replace(store.read(), ONE, message="x")
        assert refused.value.code == "append_base_invalid"
        assert store.revision() is None

    def test_a_replacement_of_other_bytes_is_refused(self, bench: Bench) -> None:
        store = bench.open()
        tip = appended(store, ONE)
        with pytest.raises(CallboardError) as refused:
            store.replace(LedgerTip(tip.revision, TWO), THREE, message="x")
        assert refused.value.code == "append_base_invalid"
        assert bench.open().read() == tip

    @pytest.mark.parametrize(("data", "cause", "line", "byte"), BROKEN)
    def test_a_replacement_that_is_no_ledger_is_refused(
        self, bench: Bench, data: bytes, cause: str, line: int, byte: int
    ) -> None:
        store = bench.open()
        tip = appended(store, ONE)
        with pytest.raises(CallboardError) as refused:
            store.replace(tip, data, message="x")
        assert_refused(refused.value, cause, line, byte)
        assert bench.open().read() == tip

    def test_replacements_and_appends_contend_and_one_wins_each(self, bench: Bench) -> None:
        appended(bench.open(), ONE)
        won: list[str] = []

        def write(name: str) -> None:
            store = bench.open()
            line = b'{"by":"%s"}\n' % name.encode()
            for _try in range(500):
                base = store.read()
                if name.startswith("r"):
                    answer = store.replace(base, base.data + line, message=name)
                else:
                    answer = store.append(base, line, message=name)
                if isinstance(answer, Appended):
                    won.append(name)
                    return

        names = ["r1", "a1", "r2", "a2"]
        threads = [threading.Thread(target=write, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        data = bench.open().read().data
        assert sorted(won) == sorted(names)
        assert data.count(b"\n") == 5
        assert all(data.count(b'"%s"' % name.encode()) == 1 for name in names)
