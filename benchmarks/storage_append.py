"""What does one durable append to a Git ledger cost, compared with writing the same bytes plainly?

Prints one JSON line a figure: `{name, value, unit, floor, ratio, n}`. `value` is the median of `n`
runs in milliseconds; `floor` is the median, in the same run, of writing the ledger's bytes to a
plain file and syncing it (for reads: of reading that file); `ratio` is value / floor. Beside ours
stand the same steps with dulwich's own writer and, where it is installed, with pygit2.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _figures import show
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, Tree
from dulwich.refs import DiskRefsContainer, Ref

from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended
from callboard.canonical import encode, sha256_hex

FILE = b"work-queue.jsonl"


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


def plain_write(path: Path, data: bytes) -> None:
    """The floor of an append."""
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def with_dulwich(git_dir: Path, data: bytes, turn: list[int]) -> None:
    """The same append through dulwich's own object and ref writers."""
    turn[0] += 1
    store = DiskObjectStore(git_dir / "objects", fsync_object_files=True, loose_compression_level=1)
    blob = Blob.from_string(data + record(-turn[0]))
    tree = Tree()
    tree.add(FILE, 0o100644, blob.id)
    commit = Commit()
    commit.tree = tree.id
    commit.author = commit.committer = b"bench <bench@example.invalid>"
    commit.author_time = commit.commit_time = turn[0]
    commit.author_timezone = commit.commit_timezone = 0
    commit.message = b"append\n"
    for item in (blob, tree, commit):
        store.add_object(item)
    refs = DiskRefsContainer(git_dir)
    name = Ref(b"refs/heads/by-dulwich")
    refs.set_if_equals(name, refs.follow(name)[1], commit.id)


def pygit2_append(path: Path, data: bytes, turn: list[int]) -> Callable[[], object] | None:
    """The same append through pygit2, or None where it is not installed."""
    try:
        pygit2 = importlib.import_module("pygit2")
    except ImportError:
        return None
    pygit2.settings.enable_fsync_gitdir(True)
    repository = pygit2.Repository(str(path))

    def act() -> None:
        turn[0] += 1
        builder = repository.TreeBuilder()
        builder.insert(FILE.decode(), repository.create_blob(data + record(-turn[0])), 0o100644)
        who = pygit2.Signature("bench", "bench@example.invalid", turn[0], 0)
        commit = repository.create_commit(None, who, who, "append\n", builder.write(), [])
        repository.references.create("refs/heads/by-pygit2", commit, force=True)

    return act


def read_by_dulwich(git_dir: Path) -> bytes:
    """The tip's ledger through a fresh dulwich store."""
    store = DiskObjectStore(git_dir / "objects")
    tip = DiskRefsContainer(git_dir)[Ref(b"refs/heads/work-queue")]
    commit = store[tip]
    assert isinstance(commit, Commit)
    tree = store[commit.tree]
    assert isinstance(tree, Tree)
    return store.get_raw(tree[FILE][1])[1]


def read_by_pygit2(path: Path) -> bytes:
    """The tip's ledger through a freshly opened pygit2 repository."""
    repository = importlib.import_module("pygit2").Repository(str(path))
    commit = repository[repository.references["refs/heads/work-queue"].target]
    data: bytes = commit.tree[FILE.decode()].data
    return data


def measure(folder: Path, object_format: str, mebibytes: int, runs: int) -> None:
    """All figures of one ledger size in one object format."""
    path = folder / f"{object_format}-{mebibytes}"
    subprocess.run(
        ["git", "init", "-q", "-b", "main", f"--object-format={object_format}", str(path)],
        check=True,
    )
    data = ledger(mebibytes * 1024 * 1024)
    plain = path / "plain"
    label = f"{object_format}_{mebibytes}MiB"
    floor = median_ms(lambda: plain_write(plain, data), runs)
    read_floor = median_ms(plain.read_bytes, runs)
    with Repository.discover(path) as repository:
        store = GitStore(repository)
        store.append(store.read(), data, message="fill")
        turn = [0]

        def append() -> None:
            turn[0] += 1
            answer = store.append(store.read(), record(-turn[0]), message="append")
            if not isinstance(answer, Appended):
                raise SystemExit("the append did not land")

        show(f"append_{label}", median_ms(append, runs), floor, unit="ms", n=runs)
        read_ms = median_ms(lambda: GitStore(repository).read(), runs)
        show(f"read_{label}", read_ms, read_floor, unit="ms", n=runs)
        show(f"read_again_{label}", median_ms(store.read, 200), read_floor, unit="ms", n=200)
    if object_format != "sha1":
        return
    git_dir = path / ".git"
    dulwich_ms = median_ms(lambda: with_dulwich(git_dir, data, turn), runs)
    show(f"append_by_dulwich_{label}", dulwich_ms, floor, unit="ms", n=runs)
    read_ms = median_ms(lambda: read_by_dulwich(git_dir), runs)
    show(f"read_by_dulwich_{label}", read_ms, read_floor, unit="ms", n=runs)
    act = pygit2_append(path, data, turn)
    if act is not None:
        read_ms = median_ms(lambda: read_by_pygit2(path), runs)
        show(f"read_by_pygit2_{label}", read_ms, read_floor, unit="ms", n=runs)
        show(f"append_by_pygit2_{label}", median_ms(act, runs), floor, unit="ms", n=runs)


def main() -> None:
    """Measure 1 MiB and 16 MiB in both object formats."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--mebibytes", type=int, nargs="*", default=[1, 16])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for object_format in ("sha1", "sha256"):
            for mebibytes in options.mebibytes:
                measure(Path(folder), object_format, mebibytes, options.runs)


if __name__ == "__main__":
    main()
