"""How the benchmarks time whole processes, and print one JSON line a figure, value beside floor."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence

MEBIBYTE = 1024 * 1024


def show(
    name: str, value: float, floor: float, *, unit: str = "s", n: int, **more: float | None
) -> None:
    """Print one figure; `value` and `floor` are in `unit`, `n` of its question's own choice."""
    figure = {
        "name": name,
        "value": round(value, 3),
        "unit": unit,
        "floor": round(floor, 3),
        "ratio": round(value / floor, 2),
        **more,
        "n": n,
    }
    print(json.dumps(figure), flush=True)


def seconds(argv: Sequence[str], runs: int, environment: Mapping[str, str] | None = None) -> float:
    """The best of `runs` runs of a command that must succeed."""
    taken = []
    for _run in range(runs):
        start = time.perf_counter()
        subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - start)
    return min(taken)


def cut(data: bytes, size_bytes: int) -> bytes:
    """The whole lines of a ledger that fit into `size_bytes`."""
    return data[: data.rfind(b"\n", 0, size_bytes) + 1]
