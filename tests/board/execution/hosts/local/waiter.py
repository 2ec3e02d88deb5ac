"""The worker of the contract's runs: notes that it executes, says a line, waits to be let go."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

SAID = b"a line that a run says\n"
_STEP_S = 0.02
_STEPS = 6_000


def main() -> None:
    """Execute the one Claim of the assignment, whose payload names the files."""
    assignment = json.loads(Path(os.environ["CALLBOARD_ASSIGNMENT"]).read_text())
    payload = assignment["claims"][0]["work"]
    with Path(payload["journal"]).open("a") as journal:
        journal.write(assignment["dispatch_id"] + "\n")
    sys.stdout.buffer.write(SAID)
    sys.stdout.flush()
    pause = threading.Event()
    for _step in range(_STEPS):
        if Path(payload["go"]).exists():
            return
        pause.wait(_STEP_S)


if __name__ == "__main__":
    main()
