"""How long does `callboard status` take on 10,000 mostly settled nodes, as a whole process?

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

from _figures import seconds, show
from _ledgers import ledger_of_nodes

from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended

_RUNS = 3
_FLOOR = """
import hashlib, sys
import msgspec
decoder = msgspec.json.Decoder()
for line in open(sys.argv[1], "rb").read().splitlines():
    decoder.decode(line)
    hashlib.sha256(line).digest()
"""


def main() -> None:
    """Make the board, ask for its status, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    nodes: int = parser.parse_args().nodes
    data = ledger_of_nodes(nodes)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
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
    name = f"status of {nodes} nodes in {len(data) / 2**20:.0f} MiB"
    show(name, taken, floor, unit="s", n=_RUNS)


if __name__ == "__main__":
    main()
