"""Turns: one at a time, given back by the dead, and never a reason not to go on."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
import time
from pathlib import Path

from callboard.board.storage.turnstile import Turnstile

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


def test_a_dead_holder_keeps_nobody_waiting(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
        holder.wait()
        began = time.monotonic()
        with Turnstile(tmp_path, "board").turn(30.0):
            assert time.monotonic() - began < 4.0


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
