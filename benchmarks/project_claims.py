"""What does it cost to hold a piece of work and let it go, and what do several processes get done?

A project of 10,000 pieces of work, 1,000 sessions and 100,000 events, written durably
(`synchronous=FULL`). Prints one JSON line a figure, rates in changes a second:

    claims      acquire and release through the API, in one process
    together    four processes on different work, against one
    contending  eight processes on one piece of work, who are refused most of the time, against one
                process alone; `least` is the share of the slowest one, `refused` counts a second

The floor of the first is a bare loop of `BEGIN IMMEDIATE; INSERT; COMMIT` in the same run, in
slices between ours, as other work on the machine slows down both.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _figures import show
from _projects import make_project, session_at

from callboard.errors import CallboardError
from callboard.project.project import Project

_SLICE_S = 0.5


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


def worker(root: str, work: str, seconds: str) -> None:
    """A process of its own: as many changes as it can; refused ones are counted apart."""
    with Project.open(root) as project:
        session = session_at(project, work)
        print("ready", flush=True)
        sys.stdin.readline()
        done = refused = 0
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            try:
                project.claims.acquire(session, ttl_ms=60_000)
                project.claims.release(session)
                done += 2
            except CallboardError as error:
                if error.code != "claim_held":
                    raise
                refused += 1
        print(json.dumps([done, refused]))


def rates(root: Path, work: list[str], seconds: float) -> list[tuple[float, float]]:
    """Changes and refusals a second of each of several processes at the same time."""
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "--worker", str(root), key, str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for key in work
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = []
    for process in processes:
        output, _nothing = process.communicate()
        if process.returncode:
            raise SystemExit("a process failed")
        done, refused = json.loads(output)
        found.append((done / seconds, refused / seconds))
    return found


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--contend-seconds", type=float, default=30.0)
    parser.add_argument("--small", action="store_true", help="a hundredth of everything")
    parser.add_argument("--worker", nargs=3)
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
        alone, _none = rates(root, ["W2"], words.seconds)[0]
        different = [f"W{number}" for number in range(3, 7)]
        four = [done for done, _none in rates(root, different, words.seconds)]
        again, _none = rates(root, ["W2"], words.seconds)[0]
        show("together", sum(four), (alone + again) / 2, unit="changes/s", n=4, least=share(four))
        found = rates(root, ["W7"] * 8, words.contend_seconds)
        eight = [done for done, _refused in found]
        refused = round(sum(count for _done, count in found), 3)
        more = {"least": share(eight), "refused": refused}
        show("contending", sum(eight), alone, unit="changes/s", n=8, **more)


def share(rates: list[float]) -> float:
    """How much the slowest gets of what all get on average."""
    return round(min(rates) * len(rates) / max(sum(rates), 1e-9), 3)


if __name__ == "__main__":
    main()
