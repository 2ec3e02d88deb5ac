"""A supervisor of one command as a process of its own, to be killed or watched by tests.

Arguments: a folder for logs, a run id, `held` or `running`, then the command. It prints the
leader's pid when it stands at the gate, goes on when a line arrives (or for ever, if `held`), and
prints the outcome with its own children that ended and were not reaped.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from callboard.processes import members
from callboard.processes.adoption import adopt_orphans
from callboard.processes.held import Command, hold


def main() -> None:
    """Hold the command, tell its pid, wait for a line, run it, tell the outcome."""
    folder, run_id, mode, *argv = sys.argv[1:]
    if os.environ.get("ADOPT"):
        adopt_orphans()
    command = Command(
        argv=tuple(argv),
        env={"PATH": os.environ["PATH"]},
        cwd=Path(folder),
        stdout=Path(folder, "stdout"),
        stderr=Path(folder, "stderr"),
        timeout_s=60,
        grace_s=0.2,
    )
    with hold(command, run_id=run_id) as held:
        signal.signal(signal.SIGTERM, lambda _number, _frame: held.request_stop())
        sys.stdout.write(f"{held.identity.pid}\n")
        sys.stdout.flush()
        sys.stdin.readline()
        if mode == "held":
            signal.pause()
        outcome = held.run().document()
    zombies = [one.pid for one in members.everyone() if one.ended and one.parent == os.getpid()]
    sys.stdout.write(json.dumps(outcome | {"zombies": zombies}) + "\n")


if __name__ == "__main__":
    main()
