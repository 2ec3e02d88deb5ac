"""What does one durable append to a Git ledger cost, and what does it leave on the disk?

Prints one JSON line a figure: `{name, value, unit, floor, ratio, n}`. The floors are measured
in the same run, as other work on the machine slows down both:

    append      the digest of the ledger's bytes, and the digest, one write and one sync of as many
                bytes as the deflated ledger has
    growth      the added lines, deflated in one stream
    cat_file    inflating the ledger's bytes; the value is the slowest `git cat-file` of the run
    read        inflating the ledger's bytes, and their digest
    packs       one

Beside ours stands the same append as a loose object, and through dulwich's own pack writer.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from _figures import show
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob

from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended
from callboard.canonical import encode, sha256_hex

FILE = "work-queue.jsonl"
REF = "refs/heads/work-queue"


def record(number: int) -> bytes:
    """A line of about the size and entropy of a real one."""
    return (
        encode(
            {
                "actor": {"principal": "123456", "repository": "octo/repo", "role": "producer"},
                "at": 1_700_000_000_000 + number,
                "id": "q_" + sha256_hex(b"%d" % number),
                "operations": [{"kind": "Work", "work_id": sha256_hex(b"w%d" % number)}],
                "previous": "q_" + sha256_hex(b"%d" % (number - 1)),
                "proof": [sha256_hex(b"%d %d" % (number, part)) for part in range(8)],
                "request": {"fingerprint": sha256_hex(b"f%d" % number), "kind": "submit"},
            }
        )
        + b"\n"
    )


def ledger(size_bytes: int) -> bytes:
    """A ledger of at least that size."""
    lines: list[bytes] = []
    total = 0
    while total < size_bytes:
        lines.append(record(len(lines)))
        total += len(lines[-1])
    return b"".join(lines)


def median_ms(act: Callable[[], object], runs: int) -> float:
    """The median time of `runs` calls, in milliseconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        act()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def write_floor(path: Path, data: bytes, deflated: bytes, algorithm: str) -> None:
    """The least that an append has to do, whatever it writes."""
    hashlib.new(algorithm, data).digest()
    hashlib.new(algorithm, deflated).digest()
    with path.open("wb") as stream:
        stream.write(deflated)
        stream.flush()
        os.fsync(stream.fileno())


def git(path: Path, *args: str) -> None:
    """Run a Git command that must succeed, and drop what it says."""
    subprocess.run(["git", "-C", str(path), *args], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def new_repository(folder: Path, object_format: str) -> Iterator[Path]:
    """An empty repository."""
    with tempfile.TemporaryDirectory(dir=folder) as path:
        git(folder, "init", "-q", "-b", "main", f"--object-format={object_format}", path)
        yield Path(path)


def stored_bytes(path: Path) -> int:
    """What the object folder takes on the disk."""
    files = (entry for entry in (path / ".git" / "objects").rglob("*") if entry.is_file())
    return sum(entry.stat().st_blocks * 512 for entry in files)


def fill(path: Path, data: bytes) -> None:
    """Make the board, in a process's turn of its own."""
    with Repository.discover(path) as repository:
        store = GitStore(repository)
        store.append(store.read(), data, message="fill")


def run(path: Path, data: bytes, label: str, appends: int, floor_ms: float) -> None:
    """A long run of appends in one process, with a look at the tip by Git now and then."""
    fill(path, data)
    before = stored_bytes(path)
    deflated = zlib.compress(data, 1)
    inflate_ms = median_ms(lambda: zlib.decompress(deflated), 5)
    times, looks = [], []
    lines = [record(-1 - turn) for turn in range(appends)]
    with Repository.discover(path) as repository:
        store = GitStore(repository)
        for turn, line in enumerate(lines):
            start = time.perf_counter()
            answer = store.append(store.read(), line, message="append")
            times.append((time.perf_counter() - start) * 1000)
            if not isinstance(answer, Appended):
                raise SystemExit("the append did not land")
            if turn % max(1, appends // 40) == 0:
                start = time.perf_counter()
                git(path, "cat-file", "blob", f"{REF}:{FILE}")
                looks.append((time.perf_counter() - start) * 1000)
    middle = statistics.median(times)
    rate = round(1000 * len(times) / sum(times), 1)
    show(f"append_{label}", middle, floor_ms, unit="ms", n=appends, a_second=rate,
         slowest=round(max(times), 1))  # fmt: skip
    added = len(zlib.compress(b"".join(lines), 6)) / appends
    grown = (stored_bytes(path) - before) / appends
    show(f"growth_{label}", grown, added, unit="bytes", n=appends)
    show(f"cat_file_{label}", max(looks), inflate_ms, unit="ms", n=len(looks))
    packs = len(list((path / ".git" / "objects" / "pack").glob("*.pack")))
    show(f"packs_{label}", packs, 1, unit="packs", n=appends)


def reads(path: Path, label: str, algorithm: str, runs: int) -> None:
    """The tip, read by a new store and asked for again."""
    with Repository.discover(path) as repository:
        tip = GitStore(repository).read()
        deflated = zlib.compress(tip.data, 1)

        def floor() -> None:
            hashlib.new(algorithm, zlib.decompress(deflated)).digest()

        def read() -> None:
            entry = repository.entry(str(tip.revision), FILE)
            assert entry is not None
            repository.read_blob(entry.oid, len(tip.data))

        floor_ms = median_ms(floor, runs)
        show(f"read_blob_{label}", median_ms(read, runs), floor_ms, unit="ms", n=runs)
        checked_ms = median_ms(lambda: GitStore(repository).read(), runs)
        show(f"read_{label}", checked_ms, floor_ms, unit="ms", n=runs)
        store = GitStore(repository)
        store.read()
        show(f"read_again_{label}", median_ms(store.read, 200), floor_ms, unit="ms", n=200)


def otherwise(path: Path, data: bytes, label: str, runs: int, floor_ms: float) -> None:
    """The same append in ways that were not taken."""
    turn = [0]
    with Repository.discover(path) as repository:

        def loose() -> None:
            turn[0] += 1
            pieces = [data, record(-turn[0])]
            old = repository.read_ref("refs/heads/loose")
            repository.move_ref("refs/heads/loose", old, lambda: repository.commit_file(
                old, FILE, pieces, message="append", at_ms=turn[0]))  # fmt: skip

        show(f"append_loose_{label}", median_ms(loose, runs), floor_ms, unit="ms", n=runs)
    if "sha256" in label:
        return
    store = DiskObjectStore(path / ".git" / "objects", fsync_object_files=True)

    def packed() -> None:
        turn[0] += 1
        store.add_objects([(Blob.from_string(data + record(-turn[0])), None)])

    show(f"append_by_dulwich_{label}", median_ms(packed, runs), floor_ms, unit="ms", n=runs)
    store.close()


def measure(folder: Path, object_format: str, mebibytes: int, runs: int, appends: int) -> None:
    """All figures of one ledger size in one object format."""
    data = ledger(mebibytes * 1024 * 1024)
    label = f"{object_format}_{mebibytes}MiB"
    deflated = zlib.compress(data, 1)
    with new_repository(folder, object_format) as path:

        def floor() -> None:
            write_floor(path / "plain", data, deflated, object_format)

        before_ms = median_ms(floor, max(runs, 25))
        run(path, data, label, appends, before_ms)
        reads(path, label, object_format, runs)
        otherwise(path, data, label, runs, before_ms)


def main() -> None:
    """Measure 1 MiB and 16 MiB in both object formats."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--appends", type=int, default=1000)
    parser.add_argument("--mebibytes", type=int, nargs="*", default=[1, 16])
    parser.add_argument("--formats", nargs="*", default=["sha1", "sha256"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for object_format in options.formats:
            for mebibytes in options.mebibytes:
                measure(Path(folder), object_format, mebibytes, options.runs, options.appends)


if __name__ == "__main__":
    main()
