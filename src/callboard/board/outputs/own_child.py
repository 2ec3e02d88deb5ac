"""The process in which a project's handler or verifier runs: one question, one answer, the end.

Started by path, as `python -I own_child.py`, so that neither the environment nor a working folder
brings in code; what may be imported is said by the question. Standard library only, until then. The
answer has a descriptor of its own: whatever the project's code prints goes nowhere.
"""

from __future__ import annotations

import json
import os
import sys
import threading


def _end_with_parent() -> None:
    """End where whoever asked is gone: nobody would read the answer, and others ask again."""
    sys.stdin.buffer.read()
    os._exit(3)


def main() -> None:
    """Answer the question on standard input, one line of JSON, on what was standard output."""
    answer_to = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    question = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.path[:] = question["path"]
    from callboard.board.outputs.own_acts import act

    answer = act(question)
    while answer:
        answer = answer[os.write(answer_to, answer) :]
    # Neither threads nor exit handlers of the project's code keep us.
    os._exit(0)


if __name__ == "__main__":
    main()
