"""What do several writers of one board get done, and what does it cost to finish a Claim?

Writers are processes that post one node a request as fast as they can; the rate is that of all of
them together, and the tries a request needed are counted. Finishing a Claim is three durable
commits, one after the other: its Completion, its Result, the Release of its run. Everything is
synced. Floor: one writer alone, and three plain writes of a line with a sync each. Prints one JSON
line a figure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _figures import MEBIBYTE, show
from _ledgers import (
    DISPATCHER,
    PRODUCER,
    RECONCILER,
    SENDER,
    host_run,
    ledger_of_bytes,
    worker_of,
)

from callboard.board.protocol import commit as wire
from callboard.board.publishing import lifecycle
from callboard.board.publishing.intents import DispatchNext, Intent, Nothing, Submit
from callboard.board.publishing.lifecycle import Proof
from callboard.board.publishing.plan import parse_plan
from callboard.board.publishing.publisher import Publisher
from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.turnstile import Turnstile
from callboard.clock import SystemClock

_FINISHED = 40


def publisher_of(repository: Repository) -> Publisher:
    """As a process of the command line has it."""
    turns = Turnstile(repository.common_dir / "callboard", "work-queue")
    return Publisher(GitStore(repository), SystemClock(), turn=turns.turn)


def post(publisher: Publisher, name: str) -> None:
    """One request of one node."""
    plan = parse_plan({"graph": name, "nodes": [{"key": "n", "payload": {}}]})
    intent = Submit(name, PRODUCER, plan, lambda: publisher.refresh().projection.policy, _no_check)
    publisher.publish(intent)


def _no_check(_routes: object, _works: object) -> None:
    return


def write(folder: Path, writer: str, count: int) -> None:
    """Be one writer: say that it is ready, wait for the word, post, say how long it took."""
    with Repository.discover(folder) as repository:
        publisher = publisher_of(repository)
        publisher.refresh()
        print("ready", flush=True)
        sys.stdin.readline()
        start = time.monotonic()
        for number in range(count):
            post(publisher, f"{writer}-{number}")
        print(json.dumps(time.monotonic() - start), flush=True)


def together(folder: Path, writers: int, count: int) -> float:
    """Requests a second of that many writers at once."""
    names = [f"{writers}-{number}-{os.getpid()}-{time.monotonic_ns()}" for number in range(writers)]
    argv = [sys.executable, __file__, "--folder", str(folder), "--count", str(count), "--writer"]
    processes = [
        subprocess.Popen([*argv, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in names
    ]
    outputs = [one.stdout for one in processes if one.stdout is not None]
    for output in outputs:
        output.readline()
    start = time.monotonic()
    for one in processes:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    for output in outputs:
        output.readline()
    taken = time.monotonic() - start
    for one in processes:
        one.communicate()
        assert one.returncode == 0
    return writers * count / taken


def finish_ms(publisher: Publisher) -> float:
    """The median of finishing one Claim."""
    taken: list[float] = []
    for number in range(_FINISHED):
        asked = wire.DispatchNextParameters(
            pool="default", max_claims=1, max_dispatches=1, max_bytes=49_152
        )
        _publish(publisher, DispatchNext(f"contention-{number}", DISPATCHER, asked))
        projection = publisher.refresh().projection
        dispatch_id = next(reversed(projection.open_dispatches))
        state = projection.dispatches[dispatch_id]
        run = host_run(state, 10**30 + number)
        _publish(publisher, lifecycle.start(dispatch_id, SENDER, "7"))
        _publish(publisher, lifecycle.bind(dispatch_id, run, worker_of(state, run)))
        work_id = state.assignment.claims[0].work_id
        proof = Proof("delivery", "verified_receipts", receipt="git-readback")
        ended = Proof("terminal_run", "host_api", conclusion="success")
        outputs: dict[str, object] = {"version": 1, "outputs": []}
        worker = worker_of(state, run)
        start = time.perf_counter()
        _publish(publisher, lifecycle.finish(dispatch_id, "h1", "completed", worker))
        _publish(publisher, lifecycle.deliver(work_id, outputs, proof, RECONCILER))
        _publish(publisher, lifecycle.release(dispatch_id, ended, "run_ended", RECONCILER))
        taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken)


def _publish(publisher: Publisher, intent: Intent) -> None:
    assert not isinstance(publisher.publish(intent), Nothing)


def plain_ms(folder: Path) -> float:
    """The median of three plain synced writes of a line."""
    taken: list[float] = []
    for _run in range(_FINISHED):
        start = time.perf_counter()
        for _write in range(3):
            with (folder / "plain").open("ab") as stream:
                stream.write(b"x" * 1024)
                stream.flush()
                os.fsync(stream.fileno())
        taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken)


def measure(size: int, count: int) -> None:
    """All figures on one board of that many MiB."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        repository = folder / "app"
        subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
        with Repository.discover(repository) as opened:
            store = GitStore(opened)
            store.append(store.read(), ledger_of_bytes(size * MEBIBYTE), message="benchmark")
            finished = finish_ms(publisher_of(opened))
            show(f"finish a Claim, {size} MiB", finished, plain_ms(folder), unit="ms", n=_FINISHED)
        alone = together(repository, 1, count)
        for writers in (2, 4, 8):
            rate = together(repository, writers, max(1, count // writers))
            name = f"contended appends, {writers} writers, {size} MiB"
            show(name, rate, alone, unit="1/s", n=count)


def main() -> None:
    """Measure, or be one of the writers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=1)
    parser.add_argument("--count", type=int, default=160)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.writer is None:
        measure(given.mebibytes, given.count)
    else:
        write(given.folder, given.writer, given.count)


if __name__ == "__main__":
    main()
