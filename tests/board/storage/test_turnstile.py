"""Turns: one at a time, given back by the dead, and never a reason not to go on."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from callboard.board.storage import turnstile
from callboard.board.storage.turnstile import Turnstile
from tests.waiting import until

HOLDER = """
import sys
from pathlib import Path
from callboard.board.storage.turnstile import Turnstile
with Turnstile(Path(sys.argv[1]), "board").turn(1.0):
    sys.stdout.write("held\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""


def test_one_at_a_time_and_everybody_in_the_end(tmp_path: Path) -> None:
    order: list[int] = []
    inside = threading.Lock()

    def pass_often(number: int) -> None:
        turns = Turnstile(tmp_path, "board")
        for _time in range(20):
            with turns.turn(30.0):
                assert inside.acquire(blocking=False)
                order.append(number)
                inside.release()

    threads = [threading.Thread(target=pass_often, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(order) == sorted(list(range(4)) * 20)


def test_a_dead_holder_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(_pause: threading.Event, _timeout: float) -> bool:
        raise AssertionError("waited for a dead holder")

    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
        holder.wait()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Event, "wait", wait)
            with Turnstile(tmp_path, "board").turn(30.0):
                assert not _free(tmp_path, "*.lock")


def test_who_gets_no_turn_goes_ahead(tmp_path: Path) -> None:
    folder = tmp_path / "turns"
    folder.mkdir()
    turns = Turnstile(folder, "board")
    entered = []
    with turns.turn(0.0), turns.turn(0.05):
        entered.append("held by another")
    with Turnstile(tmp_path / "missing", "board").turn(1.0):
        entered.append("no folder")
    with turns.turn(0.0), Turnstile(folder, "another").turn(0.0):
        entered.append("another board")
    assert len(entered) == 3
    for path in folder.iterdir():
        with path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_who_comes_back_finds_the_one_who_waited_before_him(tmp_path: Path) -> None:
    turns = Turnstile(tmp_path, "board")
    order: list[str] = []

    def wait_for_one() -> None:
        with Turnstile(tmp_path, "board").turn(30.0):
            order.append("waited")

    waiting = threading.Thread(target=wait_for_one)
    with turns.turn(1.0):
        waiting.start()
        until(lambda: not _free(tmp_path, "*.queue"), timeout_s=60)
    with turns.turn(30.0):
        order.append("came back")
    waiting.join()
    assert order == ["waited", "came back"]


def test_a_turn_is_given_back_by_whoever_fails_in_it(tmp_path: Path) -> None:
    turns = Turnstile(tmp_path, "board")
    with pytest.raises(KeyError), turns.turn(1.0):
        raise KeyError
    assert _free(tmp_path, "*.lock")


def test_whoever_is_interrupted_while_waiting_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, other = Turnstile(tmp_path, "board"), Turnstile(tmp_path, "board")
    before = len(os.listdir("/proc/self/fd"))

    def interrupt(_wait: threading.Event, _timeout: float) -> bool:
        raise KeyboardInterrupt

    with turns.turn(1.0):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Event, "wait", interrupt)
            with pytest.raises(KeyboardInterrupt), other.turn(30.0):
                pass
        assert _free(tmp_path, "*.queue")
    assert _free(tmp_path, "*.lock")
    assert len(os.listdir("/proc/self/fd")) == before


def test_files_that_cannot_be_opened_or_locked_stop_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turnstile(tmp_path, "board")
    with turns.turn(1.0):
        pass
    entered = []

    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        with turns.turn(30.0):
            entered.append("no locks")
    for name in ("*.lock", "*.queue"):
        path = next(tmp_path.glob(name))
        path.unlink()
        path.mkdir()
        with turns.turn(30.0):
            entered.append(name)
    assert entered == ["no locks", "*.lock", "*.queue"]
    assert [path for path in tmp_path.glob("*") if path.is_file()] == []


def test_a_folder_deleted_meanwhile_stops_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "turns"
    folder.mkdir()
    turns = Turnstile(folder, "board")
    with turns.turn(1.0):
        shutil.rmtree(folder)
        with turns.turn(30.0):
            assert not folder.exists()
    folder.mkdir()
    with turns.turn(1.0):
        assert not _free(folder, "*.lock")


def test_nobody_waits_longer_than_the_longest_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = began = time.monotonic()

    def wait(_pause: threading.Event, timeout: float) -> bool:
        nonlocal now
        now += timeout
        return False

    turns = Turnstile(tmp_path, "board")
    with turns.turn(1.0), monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", wait)
        patch.setattr(time, "monotonic", lambda: now)
        with turns.turn(3600.0):
            waited = now - began
    assert turnstile.LONGEST_WAIT_S <= waited < turnstile.LONGEST_WAIT_S + 0.1


def _free(folder: Path, name: str) -> bool:
    """Whether nobody holds the one file of this name."""
    with next(folder.glob(name)).open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
