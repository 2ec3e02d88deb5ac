"""A process that appends numbered lines to a ledger; `start` runs this module as one.

It prints each line's number once it is accepted, so that its killer knows what must not be lost.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended
from tests.ambient import ROOT


def start(path: Path, name: str, count: int, branch: str = "work-queue") -> subprocess.Popen[str]:
    """Start a process that appends `count` lines by `name` to the repository at `path`."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.board.storage.appender", str(path), name, str(count), branch],
        env=environment,
        cwd=path,
        stdout=subprocess.PIPE,
        text=True,
    )


def main() -> None:
    path, name, count, branch = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    with Repository.discover(path) as repository:
        store = GitStore(repository, branch)
        for number in range(count):
            line = f'{{"by":"{name}","n":{number}}}\n'.encode()
            while not isinstance(store.append(store.read(), line, message=f"by {name}"), Appended):
                pass
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
