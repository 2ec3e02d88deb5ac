"""What does one more commit cost on a projection of 64 MiB, without transfer?

Floor: decoding and hashing that line. Measured are reading, checking and applying the line as a
reader of a longer ledger does, and taking it back, for each of the last commits of a large
ledger. Prints one JSON line a figure.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import statistics
import time

import msgspec
from _figures import MEBIBYTE, cut, show
from _ledgers import ROOM_TO_SUBMIT, ledger_of_bytes

from callboard.board.ledger import replay
from callboard.board.ledger.history import History
from callboard.board.protocol.envelope import read_line

_LINES = 2_000


def main() -> None:
    """Load a ledger without its last lines, then apply those one by one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=64)
    size: int = parser.parse_args().mebibytes
    whole = ledger_of_bytes(size * MEBIBYTE)
    lines = cut(whole, size * MEBIBYTE - ROOM_TO_SUBMIT).splitlines(keepends=True)
    history = History.read(b"".join(lines[:-_LINES]))
    decoder = msgspec.json.Decoder()
    floors: list[float] = []
    values: list[float] = []
    gc.freeze()
    for line in lines[-_LINES:]:
        start = time.process_time()
        decoder.decode(line[:-1])
        hashlib.sha256(line[:-1]).digest()
        floors.append(time.process_time() - start)
        start = time.process_time()
        replay.apply(history.projection, read_line(line[:-1]))
        values.append(time.process_time() - start)
    floor, value = (1000 * statistics.median(taken) for taken in (floors, values))
    show(f"one more commit on {size} MiB", value, floor, unit="ms", n=_LINES)


if __name__ == "__main__":
    main()
