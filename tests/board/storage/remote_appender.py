"""A process that appends numbered lines to a board on a remote; `start` runs this module as one.

It says `ready` once it has read the board, waits for a line, and prints each number it appended.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from callboard.board.storage.remote import RemoteStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended
from callboard.board.storage.transport import RemoteAccess, Transport
from tests.ambient import ROOT


def start(
    clone: Path, name: str, count: int, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a process that appends `count` lines by `name` from the clone `clone`."""
    variables = dict(os.environ if environment is None else environment)
    variables["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    return subprocess.Popen(
        [sys.executable, "-m", "tests.board.storage.remote_appender", str(clone), name, str(count)],
        env=variables,
        cwd=clone,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def release(*processes: subprocess.Popen[str]) -> None:
    """Wait until all are ready, then let all of them go."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def main() -> None:
    clone, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with Repository.discover(clone) as repository:
        access = RemoteAccess("origin", dict(os.environ))
        store = RemoteStore(repository, "work-queue", Transport(repository, access))
        tip = store.read()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        for number in range(count):
            line = f'{{"by":"{name}","n":{number}}}\n'.encode()
            while True:
                answer = store.append(tip, line, message=f"by {name}")
                if isinstance(answer, Appended):
                    tip = answer.tip
                    break
                tip = store.read()
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
