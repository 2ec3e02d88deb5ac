"""How long does it take to look into a project of 10,000 pieces of work and 100,000 events?

Prints one JSON line a figure, medians in milliseconds: `status`, `ready` (the first 50),
`session_show`, `event_page` (50 of a session, far into the history), `work_show`, `work_page`
(500), and `open`. Floor: reading one row by its key with the driver alone, in the same run.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _figures import show
from _projects import make_project, session_at

from callboard.project.project import Project


def median_ms(act: Callable[[], object], runs: int) -> float:
    """The median time of `runs` calls."""
    times = []
    for _run in range(runs):
        start = time.perf_counter()
        act()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--small", action="store_true", help="a hundredth of everything")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with make_project(root, scale=0.01 if words.small else 1.0) as project:
            session = session_at(project, "W1")
            project.claims.acquire(session)
            middle = project.events.list(session=f"s_{'0' * 32}", limit=500).next
            file = sqlite3.connect(root / ".callboard" / "project.db")
            reads: dict[str, Callable[[], object]] = {
                "status": project.status,
                "ready": project.work.ready,
                "session_show": lambda: project.sessions.show(session),
                "event_page": lambda: project.events.list(
                    session=f"s_{'0' * 32}", after=middle, limit=50
                ),
                "work_show": lambda: project.work.show("W77"),
                "work_page": lambda: project.work.list(limit=500),
                "open": lambda: Project.open(root).close(),
            }

            def row() -> object:
                return file.execute("SELECT * FROM projects").fetchall()

            for name, read in reads.items():
                show(
                    name,
                    median_ms(read, words.runs),
                    median_ms(row, words.runs),
                    unit="ms",
                    n=words.runs,
                )


if __name__ == "__main__":
    main()
