"""What does one append to a board on a remote cost, compared with a plain `git push` of as much?

Prints one JSON line a figure: `{name, value, unit, floor, ratio, n}`. The remote is a bare
repository in a local folder, so that the network takes no part. `floor` is the median, in the same
run, of pushing a commit of the same bytes by hand (for looks: of `git ls-remote`; for reads: of
`git fetch`); `ratio` is value / floor. `growth` is what a remote keeps of one append in KiB, as it
arrives and after `git gc`, `reader` what a clone keeps of a fetch, as it comes and after the
tidying that bounds it; their floor is the appended line itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _figures import show
from storage_append import ledger, record

from callboard.board.storage.remote import RemoteStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended, LedgerTip
from callboard.board.storage.transport import RemoteAccess, Transport

BY_HAND = "refs/heads/by-hand"


def timed_ms(act: Callable[[], object]) -> float:
    """How long one call takes, in milliseconds."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def git(folder: Path, *words: str, stdin: bytes | None = None) -> str:
    """One call of git that must succeed; what it answers."""
    done = subprocess.run(["git", *words], cwd=folder, input=stdin, check=True, capture_output=True)
    return done.stdout.decode().strip()


def commit(folder: Path, data: bytes, parent: str | None) -> str:
    """A commit with the ledger `data`, made by git."""
    blob = git(folder, "hash-object", "-w", "--stdin", stdin=data)
    tree = git(folder, "mktree", stdin=f"100644 blob {blob}\twork-queue.jsonl\n".encode())
    parents = [] if parent is None else ["-p", parent]
    return git(folder, "commit-tree", tree, *parents, "-m", "by hand")


def size_kib(folder: Path) -> float:
    """What the files below a folder take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1024


class Bench:
    """One remote with a clone, and a ledger of `size_bytes` on it."""

    def __init__(self, root: Path, name: str, size_bytes: int) -> None:
        self.name, self.hub, self.clone = name, root / f"{name}.git", root / name
        git(root, "init", "-q", "--bare", str(self.hub))
        git(root, "init", "-q", str(self.clone))
        git(self.clone, "remote", "add", "origin", str(self.hub))
        self.data = ledger(size_bytes)
        self.count = 0

    def line(self) -> bytes:
        """A line that no other is like."""
        self.count += 1
        return record(-self.count)

    def appends(self, store: RemoteStore, base: LedgerTip, runs: int) -> None:
        """Time appends and pushes by hand in turn, so that both meet the same machine."""
        ours, floor = [], []
        parent, data = None, base.data
        for _ in range(runs):
            line = self.line()
            began = time.perf_counter()
            answer = store.append(base, line, message="bench")
            ours.append((time.perf_counter() - began) * 1000)
            assert isinstance(answer, Appended)
            base = answer.tip
            data += self.line()
            parent = commit(self.clone, data, parent)
            words = ("push", "-q", "origin", f"{parent}:{BY_HAND}")
            floor.append(timed_ms(lambda words=words: git(self.clone, *words)))
        value, least = statistics.median(ours), statistics.median(floor)
        show(f"append, {self.name}", value, floor=least, unit="ms", n=runs)
        show(f"appends a second, {self.name}", 1000 / value, floor=1000 / least, unit="1/s", n=runs)

    def looks(self, store: RemoteStore, runs: int) -> None:
        """Time what a reader asks: whether there is something new, and what."""
        ref = "refs/heads/work-queue"
        look = statistics.median(timed_ms(store.revision) for _ in range(runs))
        plain = ("ls-remote", "origin", ref)
        floor = statistics.median(timed_ms(lambda: git(self.clone, *plain)) for _ in range(runs))
        show(f"look, {self.name}", look, floor=floor, unit="ms", n=runs)
        read = statistics.median(timed_ms(store.read) for _ in range(runs))
        plain = ("fetch", "-q", "origin", ref)
        floor = statistics.median(timed_ms(lambda: git(self.clone, *plain)) for _ in range(runs))
        show(f"read, unchanged, {self.name}", read, floor=floor, unit="ms", n=runs)

    def growth(self, store: RemoteStore, base: LedgerTip, runs: int) -> None:
        """What a remote keeps of an append, before and after its own housekeeping."""
        git(self.hub, "gc", "-q", "--prune=now")
        before = size_kib(self.hub / "objects")
        for _ in range(runs):
            answer = store.append(base, self.line(), message="bench")
            assert isinstance(answer, Appended)
            base = answer.tip
        line_kib = len(record(-1)) / 1024
        for when in ("as it arrives", "after gc"):
            each = (size_kib(self.hub / "objects") - before) / runs
            show(f"growth {when}, {self.name}", each, unit="KiB", floor=line_kib, n=runs)
            git(self.hub, "gc", "-q", "--prune=now")

    def reading(self, store: RemoteStore, base: LedgerTip, runs: int, root: Path) -> None:
        """What a clone keeps of each fetch, as it comes and after the tidying that bounds it."""
        clone = root / f"{self.name} reader"
        git(root, "init", "-q", str(clone))
        git(clone, "remote", "add", "origin", str(self.hub))
        with Repository.discover(clone) as repository:
            access = RemoteAccess("origin", dict(os.environ))
            transport = Transport(repository, access)
            reader = RemoteStore(repository, "work-queue", transport)
            reader.read()
            before = size_kib(clone / ".git" / "objects")
            for _ in range(runs):
                answer = store.append(base, self.line(), message="bench")
                assert isinstance(answer, Appended)
                base = answer.tip
                reader.read()
            line_kib = len(record(-1)) / 1024
            for when in ("as it comes", "after tidying"):
                each = (size_kib(clone / ".git" / "objects") - before) / runs
                show(f"reader {when}, {self.name}", each, unit="KiB", floor=line_kib, n=runs)
                transport.tidy()


def measure(root: Path, name: str, size_bytes: int, runs: int) -> None:
    """All figures of one size."""
    access = RemoteAccess("origin", dict(os.environ))
    # What a remote keeps is told of one that has nothing but the board.
    for kind in ("time", "growth", "reading"):
        folder = root / kind
        folder.mkdir(exist_ok=True)
        bench = Bench(folder, name, size_bytes)
        with Repository.discover(bench.clone) as repository:
            store = RemoteStore(repository, "work-queue", Transport(repository, access))
            first = store.append(store.read(), bench.data, message="bench")
            assert isinstance(first, Appended)
            if kind == "time":
                bench.appends(store, first.tip, runs)
                bench.looks(store, runs)
            elif kind == "growth":
                bench.growth(store, first.tip, runs)
            else:
                bench.reading(store, first.tip, runs, folder)


def main() -> None:
    """Measure ledgers of 64 KiB and 1 MiB."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    asked = parser.parse_args()
    for name in ("AUTHOR", "COMMITTER"):
        os.environ |= {f"GIT_{name}_NAME": "bench", f"GIT_{name}_EMAIL": "bench@example.invalid"}
    with tempfile.TemporaryDirectory() as folder:
        for name, size_bytes in (("64 KiB", 64 * 1024), ("1 MiB", 1024 * 1024)):
            measure(Path(folder), name, size_bytes, asked.runs)


if __name__ == "__main__":
    main()
