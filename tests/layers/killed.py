"""A runner that kills itself right after one step of its own; started by tests as a process.

Arguments: the step and the end of its place, or `#` and the number of the step; the repository,
the place of the attempt. With an `!` before the step its disk is full instead.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from callboard.errors import CallboardError
from callboard.layers.around import of_machine
from callboard.layers.running import main


def run() -> int:
    step, ending, repository, attempt = sys.argv[1:]

    count = 0

    def effect(taken: str, place: str) -> None:
        nonlocal count
        count += 1
        if step == f"!{taken}" and place.endswith(ending):
            raise CallboardError("disk_full", f"{place} was not changed", "make room")
        if (taken == step and place.endswith(ending)) or (step, ending) == ("#", str(count)):
            os.kill(os.getpid(), signal.SIGKILL)

    around = of_machine(Path(repository), dict(os.environ), effect=effect)
    return main([repository, attempt], around)


if __name__ == "__main__":
    sys.exit(run())
