"""How long does `callboard --version` take, as a whole process?

Floor: the same Python that does nothing. Prints one JSON line a figure.
"""

from __future__ import annotations

import sys

from _figures import seconds, show

_RUNS = 10


def main() -> None:
    """Start both, compare."""
    floor_s = seconds([sys.executable, "-c", "pass"], _RUNS)
    taken_s = seconds([sys.executable, "-m", "callboard", "--version"], _RUNS)
    show("callboard --version", taken_s, floor_s, unit="s", n=_RUNS)


if __name__ == "__main__":
    main()
