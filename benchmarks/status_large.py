"""How long does `callboard status` take on 10,000 mostly settled nodes, as a whole process?

Floor: a process of the same Python that reads the ledger's lines with the JSON library and hashes
each. Prints one JSON line a figure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ledgers import ledger_of_nodes

from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended

_FLOOR = """
import hashlib, sys
import msgspec
decoder = msgspec.json.Decoder()
for line in open(sys.argv[1], "rb").read().splitlines():
    decoder.decode(line)
    hashlib.sha256(line).digest()
"""


def seconds(argv: list[str], environment: dict[str, str]) -> float:
    """The best of three runs of a command that must succeed."""
    taken = []
    for _run in range(3):
        start = time.perf_counter()
        subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - start)
    return min(taken)


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
        taken = seconds(command, environment)
        floor = seconds([sys.executable, "-c", _FLOOR, str(ledger)], environment)
    figure = {
        "name": f"status of {nodes} nodes in {len(data) / 2**20:.0f} MiB",
        "value": round(taken, 3),
        "unit": "s",
        "floor": round(floor, 3),
        "ratio": round(taken / floor, 2),
        "n": 3,
    }
    print(json.dumps(figure))


if __name__ == "__main__":
    main()
