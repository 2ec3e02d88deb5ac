"""How long does `callboard status` take, as a whole process, on 1 MiB and on 10,000 settled nodes?

Floor: a process of the same Python that reads the ledger's lines with the JSON library and hashes
each. Prints one JSON line a figure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _figures import MEBIBYTE, seconds, show
from _ledgers import ledger_of_bytes, ledger_of_nodes

from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended

_RUNS = 5
_FLOOR = """
import hashlib, sys
import msgspec
decoder = msgspec.json.Decoder()
for line in open(sys.argv[1], "rb").read().splitlines():
    decoder.decode(line)
    hashlib.sha256(line).digest()
"""


def measure(name: str, data: bytes) -> None:
    """Make the board, ask for its status, compare."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ledger = folder / "ledger.jsonl"
        ledger.write_bytes(data)
        repository = folder / "app"
        subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
        with Repository.discover(repository) as opened:
            store = GitStore(opened)
            assert isinstance(store.append(store.read(), data, message="benchmark"), Appended)
        environment = {
            **os.environ,
            "CALLBOARD_CONFIG_DIR": str(folder / "config"),
            "CALLBOARD_STATE_DIR": str(folder / "state"),
        }
        command = [sys.executable, "-m", "callboard", "status", "--repo", str(repository)]
        taken = seconds(command, _RUNS, environment)
        floor = seconds([sys.executable, "-c", _FLOOR, str(ledger)], _RUNS, environment)
    show(name, taken, floor, n=_RUNS)


def main() -> None:
    """A small board and a large one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    nodes: int = parser.parse_args().nodes
    measure("status of 1 MiB", ledger_of_bytes(MEBIBYTE))
    data = ledger_of_nodes(nodes)
    measure(f"status of {nodes} nodes in {len(data) / MEBIBYTE:.0f} MiB", data)


if __name__ == "__main__":
    main()
