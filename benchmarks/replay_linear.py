"""Does cold replay grow linearly? Prints one JSON line a figure.

Floor: the same bytes, each line decoded by the JSON library and hashed, nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import time

import msgspec
from _figures import show
from _ledgers import ledger_of_bytes

from callboard.board.ledger.history import History

MEBIBYTE = 1024 * 1024


def floor_s(data: bytes) -> float:
    """Seconds to decode and hash every line."""
    start = time.perf_counter()
    decoder = msgspec.json.Decoder()
    for line in data.splitlines():
        decoder.decode(line)
        hashlib.sha256(line).digest()
    return time.perf_counter() - start


def replay_s(data: bytes) -> float:
    """Seconds to replay cold."""
    start = time.perf_counter()
    History.read(data)
    return time.perf_counter() - start


def main() -> None:
    """Measure each size, smallest first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, nargs="+", default=[4, 8, 16, 32, 64])
    sizes: list[int] = parser.parse_args().mebibytes
    before: float | None = None
    whole = ledger_of_bytes(max(sizes) * MEBIBYTE)
    for size in sizes:
        data = whole[: whole.rfind(b"\n", 0, size * MEBIBYTE) + 1]
        floor, taken = floor_s(data), replay_s(data)
        growth = None if before is None else round(taken / before, 2)
        lines = data.count(b"\n")
        show(f"cold replay of {size} MiB", taken, floor, unit="s", growth=growth, n=lines)
        before = taken


if __name__ == "__main__":
    main()
