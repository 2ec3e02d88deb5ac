"""A coordinator that does nothing but await one attempt; started by tests as a process.

Arguments: the repository. It prints the classification of the result.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from threading import Event

from callboard.layers import tree
from callboard.layers.around import of_machine
from callboard.layers.awaiting import carry_out


def run() -> None:
    around = of_machine(Path(sys.argv[1]), dict(os.environ))
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    layer = tree.root(around.disk)
    task = tree.read_state(around.disk, layer).task
    assert task is not None
    contract = tree.read_contract(around.disk, layer)
    result = carry_out(layer, contract, task, around, stop)
    assert result is not None
    sys.stdout.write(f"{result.classification}\n")


if __name__ == "__main__":
    run()
