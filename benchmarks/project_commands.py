"""How long do a project's commands take as whole processes, on 10,000 pieces of work?

Prints one JSON line a figure: `status`, `ready`, `session show`, `event list` (50 of a session) and
`session next` with the answer that it gave before. Floor: the same Python that does nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from _figures import seconds, show
from _projects import make_project, session_at

_RUNS = 10


def main() -> None:
    """Start each, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a hundredth of everything")
    words = parser.parse_args()
    floor_s = seconds([sys.executable, "-c", "pass"], _RUNS)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with make_project(root, scale=0.01 if words.small else 1.0) as project:
            session = session_at(project, "W1")
        history = ["event", "list", "--session", f"s_{'0' * 32}"]
        taking = ["session", "next", "--agent", "bench", "--request-id", "bench"]
        for command in (["status"], ["ready"], ["session", "show", session], history, taking):
            program = [sys.executable, "-m", "callboard", "--repo", str(root), "project"]
            taken_s = seconds([*program, *command, "--json"], _RUNS)
            show(f"callboard project {' '.join(command[:2])}", taken_s, floor_s, unit="s", n=_RUNS)


if __name__ == "__main__":
    main()
