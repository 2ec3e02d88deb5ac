"""Does cold replay grow linearly, and what does it hold in memory?

Floor: the same file read, each line decoded by the JSON library and hashed, nothing else. Each
size is measured in a process of its own, which has replayed a small ledger before, so that neither
imports nor earlier sizes count. The peak is the process's largest resident size beyond what it
held before, the file's own bytes included. Prints one JSON line a figure.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from _figures import MEBIBYTE, cut, show
from _ledgers import ledger_of_bytes

from callboard.board.ledger.history import History

_RUNS = 3
_WARM_UP_BYTES = 256 * 1024


def floor_s(path: Path) -> float:
    """Seconds to read the file, and to decode and hash every line."""
    start = time.process_time()
    decoder = msgspec.json.Decoder()
    for line in path.read_bytes().splitlines():
        decoder.decode(line)
        hashlib.sha256(line).digest()
    return time.process_time() - start


def replay_s(path: Path) -> float:
    """Seconds to read and replay the file."""
    start = time.process_time()
    History.read(path.read_bytes())
    return time.process_time() - start


def _peak_bytes() -> int:
    """The largest resident size of this program; what it was started by does not count."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def measure(path: Path) -> dict[str, float]:
    """One size, in this process: peak of the first replay, then the best of several each."""
    History.read(cut(path.read_bytes()[:MEBIBYTE], _WARM_UP_BYTES))
    before = _peak_bytes()
    replays = [replay_s(path)]
    peak = _peak_bytes() - before
    replays += [replay_s(path) for _run in range(_RUNS - 1)]
    return {
        "floor_s": min(floor_s(path) for _run in range(_RUNS)),
        "replay_s": min(replays),
        "peak_bytes": peak,
    }


def main() -> None:
    """Measure each size, smallest first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, nargs="+", default=[1, 4, 16, 64, 80])
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.file is not None:
        print(json.dumps(measure(given.file)))
        return
    sizes: list[int] = given.mebibytes
    before: float | None = None
    # Beyond the watermark a ledger ends otherwise than one that stays below it goes on.
    ordinary = ledger_of_bytes(max([1, *(size for size in sizes if size <= 64)]) * MEBIBYTE)
    with tempfile.TemporaryDirectory() as name:
        for size in sizes:
            data = ordinary if size <= 64 else ledger_of_bytes(size * MEBIBYTE)
            data = cut(data, size * MEBIBYTE)
            path = Path(name, "ledger.jsonl")
            path.write_bytes(data)
            argv = [sys.executable, __file__, "--file", str(path)]
            done = subprocess.run(argv, check=True, capture_output=True, text=True)
            found: dict[str, float] = json.loads(done.stdout)
            taken, lines = found["replay_s"], data.count(b"\n")
            growth = None if before is None else round(taken / before, 2)
            show(f"cold replay, {size} MiB", taken, found["floor_s"], n=lines, growth=growth)
            peak = found["peak_bytes"] / MEBIBYTE
            show(f"peak memory, {size} MiB", peak, len(data) / MEBIBYTE, unit="MiB", n=lines)
            before = taken


if __name__ == "__main__":
    main()
