"""What does it cost to hold a piece of work and let it go, and what do several processes get done?

A project of 10,000 pieces of work, 1,000 sessions and 100,000 events, written durably
(`synchronous=FULL`). Prints one JSON line a figure, rates in changes a second:

    claims            acquire and release through the API, in one process
    together          four processes on different work, who do nothing else, against one
    together at work  the same with a millisecond of work of their own after each change
    contending        eight processes on one piece of work, who are refused most of the time
    apart             eight processes on different work

`least` is the share of the slowest one, `refused` counts a second, `longest_ms` is the longest that
somebody waited for a change. The floor of the first is a bare loop of `BEGIN IMMEDIATE; INSERT;
COMMIT`, that of the others one process alone; each is measured in slices between ours, as other
work on the machine slows down both. After the last two nothing may be lost: the fence of each piece
of work is the number of its acquisitions, and each change has its own revision with an event.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from _figures import show
from _projects import make_project, session_at

from callboard.errors import CallboardError
from callboard.project.project import Project

_SLICE_S = 0.5
_OWN_WORK_S = 0.001


def bare(file: Path) -> Callable[[], int]:
    """One durable change of a row, and how many that were."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (a TEXT)")

    def change() -> int:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES ('as long as a short row is')")
        connection.execute("COMMIT")
        return 1

    return change


def holding(project: Project, work: str) -> Callable[[], int]:
    """Two changes: acquire and release."""
    session = session_at(project, work)

    def change() -> int:
        project.claims.acquire(session, ttl_ms=60_000)
        project.claims.release(session)
        return 2

    return change


def count_for(change: Callable[[], int], seconds: float) -> float:
    """Changes a second."""
    start = time.monotonic()
    done = 0
    while (now := time.monotonic()) < start + seconds:
        done += change()
    return done / (now - start)


# --- several processes --------------------------------------------------------------------------


@dataclass
class Done:
    """What a process did in one slice or in several; `longest_s`: for one change."""

    changes: int = 0
    refused: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0

    def add(self, other: Done) -> None:
        self.changes += other.changes
        self.refused += other.refused
        self.seconds += other.seconds
        self.longest_s = max(self.longest_s, other.longest_s)


def worker(root: str, work: str) -> None:
    """A process of its own; each line that it reads says for how long it is to change things."""
    with Project.open(root) as project:
        session = session_at(project, work)
        print("ready", flush=True)
        for line in sys.stdin:
            seconds, own_s = json.loads(line)
            done = Done()
            start = time.monotonic()
            while time.monotonic() < start + seconds:
                _hold(project, session, own_s, done)
            done.seconds = time.monotonic() - start
            print(json.dumps(vars(done)), flush=True)


def _hold(project: Project, session: str, own_s: float, done: Done) -> None:
    for change in (
        lambda: project.claims.acquire(session, ttl_ms=60_000),
        lambda: project.claims.release(session),
    ):
        start = time.monotonic()
        try:
            change()
        except CallboardError as error:
            if error.code != "claim_held":
                raise
            done.refused += 1
            return
        end = time.monotonic()
        done.changes += 1
        done.longest_s = max(done.longest_s, end - start)
        while time.monotonic() < end + own_s:
            pass


class Worker:
    """Another process, which holds one piece of work again and again when it is told to."""

    def __init__(self, root: Path, work: str) -> None:
        self.work = work
        self.total = Done()
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", str(root), work],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._line()

    def send(self, seconds: float, own_s: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([seconds, own_s]) + "\n")
        self._process.stdin.flush()

    def done(self) -> Done:
        found = Done(**json.loads(self._line()))
        self.total.add(found)
        return found

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process failed")
        return line

    def end(self) -> None:
        self._process.communicate()


def slices(
    workers: Sequence[Worker], count: int, slice_s: float, own_s: float
) -> tuple[list[Done], float]:
    """What all do together, and the rate of the first one alone, in slices between."""
    together, alone = [Done() for _one in workers], Done()
    for _slice in range(count):
        workers[0].send(slice_s, own_s)
        alone.add(workers[0].done())
        for one in workers:
            one.send(slice_s, own_s)
        for sum_of_one, one in zip(together, workers, strict=True):
            sum_of_one.add(one.done())
    return together, alone.changes / alone.seconds


def show_together(
    name: str,
    root: Path,
    work: Sequence[str],
    *,
    seconds: float,
    slice_s: float = _SLICE_S,
    own_s: float = 0.0,
) -> list[Worker]:
    """Measure and print what processes get done, one at each of `work`."""
    workers = [Worker(root, key) for key in work]
    done, alone = slices(workers, max(2, round(seconds / slice_s)), slice_s, own_s)
    for one in workers:
        one.end()
    rates = [one.changes / one.seconds for one in done]
    more = {
        "least": round(min(rates) * len(rates) / max(sum(rates), 1e-9), 3),
        "longest_ms": round(max(one.longest_s for one in done) * 1000, 1),
    }
    refused = sum(one.refused / one.seconds for one in done)
    if refused:
        more["refused"] = round(refused, 1)
    show(name, sum(rates), alone, unit="changes/s", n=len(work), **more)
    return workers


def show_contending(name: str, root: Path, work: Sequence[str], *, seconds: float) -> None:
    """As `show_together`, and nothing that was acknowledged may be lost."""
    with Project.open(root) as project:
        before = project.info().revision
    workers = show_together(name, root, work, seconds=seconds, slice_s=seconds / 3)
    acquired = dict.fromkeys(work, 0)
    for one in workers:
        # Each acquisition was followed by its release.
        acquired[one.work] += one.total.changes // 2
    file = sqlite3.connect(root / ".callboard" / "project.db")
    fences = dict(file.execute("SELECT work, max(fence) FROM claims GROUP BY work"))
    if {key: fences[key] for key in work} != acquired:
        raise SystemExit(f"{name}: acquisitions were lost")
    (revision,) = file.execute("SELECT revision FROM projects").fetchone()
    (seen,) = file.execute(
        "SELECT count(DISTINCT revision) FROM events WHERE revision > ?", (before,)
    ).fetchone()
    sessions = len(workers)
    if not revision - before == seen == sessions + sum(one.total.changes for one in workers):
        raise SystemExit(f"{name}: changes were lost")
    file.close()


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--contend-seconds", type=float, default=30.0)
    parser.add_argument("--small", action="store_true", help="a hundredth of everything")
    parser.add_argument("--worker", nargs=2)
    words = parser.parse_args()
    if words.worker:
        worker(*words.worker)
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with make_project(root, scale=0.01 if words.small else 1.0) as project:
            ours, floor = holding(project, "W1"), bare(root / "bare.db")
            pairs = [
                (count_for(ours, _SLICE_S), count_for(floor, _SLICE_S))
                for _slice in range(max(2, int(words.seconds / _SLICE_S)))
            ]
        value = sum(one for one, _bare in pairs) / len(pairs)
        bottom = sum(one for _ours, one in pairs) / len(pairs)
        show("claims", value, bottom, unit="changes/s", n=len(pairs))
        four = [f"W{number}" for number in range(3, 7)]
        show_together("together", root, four, seconds=words.seconds)
        show_together("together at work", root, four, seconds=words.seconds, own_s=_OWN_WORK_S)
        show_contending("contending", root, ["W7"] * 8, seconds=words.contend_seconds)
        eight = [f"W{number}" for number in range(8, 16)]
        show_contending("apart", root, eight, seconds=words.contend_seconds)


if __name__ == "__main__":
    main()
