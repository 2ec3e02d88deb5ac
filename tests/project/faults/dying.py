"""Processes that are made quickly, do one thing to a project, and die where they are told to.

Started as a program it loads the package once and then forks for each line of JSON it is given, so
a process for every statement of every change costs little. A child kills itself by SIGKILL right
before its n-th statement, counted from the call on, or after the commit and before it can answer.
Statements are those that SQLite begins, whoever asked for them: triggers' and BEGIN and COMMIT too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import callboard
from tests.ambient import ROOT

# Where the package under test lies, which may itself be a changed copy.
HERE = Path(callboard.__file__).resolve().parent.parent
LOADED = ("alembic.command", "alembic.config", "tests.project.scenarios")
"""What no child has to load."""

UNANSWERED = -1
"""The point after the commit, before the answer."""


class Dying:
    """The program. `package`: where another version lies (see `tests.project.patched`)."""

    def __init__(self, package: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.project.faults.dying"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(package or HERE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(
        self,
        root: Path,
        clock_ms: int,
        method: str,
        *arguments: Any,
        point: int = 0,
        **named: Any,
    ) -> dict[str, Any]:
        """What a process of its own came to.

        `{"answer": …}` or `{"error": …}` with the `statements` it needed, or `{"gone": -9}`. The
        method `open` only opens the project, and is then what the point counts from; `point` 0
        lets it live.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        words = [str(root), clock_ms, point, method, arguments, named]
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        assert isinstance(found, dict)
        return found

    def end(self) -> None:
        """End the program."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()


# --- the other process --------------------------------------------------------------------------


class Counter:
    """Counts what SQLite is asked for from `begin` on, and ends the process at the point."""

    def __init__(self, point: int) -> None:
        self.point = point
        self.seen: list[str] = []
        self.counts = False
        self.writes = False
        self.committed = False

    def statement(self, text: str) -> None:
        """A statement that SQLite is about to carry out."""
        # How long somebody waits says nothing of what is done.
        if not self.counts or text.startswith("PRAGMA busy_timeout"):
            return
        self.seen.append(text)
        if len(self.seen) == self.point:
            die()
        if text == "BEGIN IMMEDIATE":
            self.writes = True
        self.committed = self.committed or (self.writes and text == "COMMIT")

    def returned(self, *_connection: object) -> None:
        """A connection was given back, so what was to be committed is."""
        if self.committed and self.point == UNANSWERED:
            die()


def die() -> None:
    """End this process as a machine does that loses its power."""
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Fork for each line; what the child says is handed on."""
    for module in LOADED:
        import_module(module)
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _one(writing, *json.loads(line))
        os.close(writing)
        with os.fdopen(reading) as stream:
            said = stream.read()
        _child, status = os.waitpid(child, 0)
        if not said:
            said = json.dumps({"gone": os.waitstatus_to_exitcode(status)})
        sys.stdout.write(said + "\n")
        sys.stdout.flush()


def _one(
    writing: int,
    root: str,
    clock_ms: int,
    point: int,
    method: str,
    arguments: list[Any],
    named: dict[str, Any],
) -> None:
    """Carry it out in this child, tell what came of it, and end."""
    import msgspec

    from callboard.errors import CallboardError

    counter = Counter(point)
    found: dict[str, Any]
    try:
        answer = _carried_out(counter, Path(root), clock_ms, method, arguments, named)
    except CallboardError as error:
        found = {"error": error.document()}
    else:
        found = {"answer": msgspec.to_builtins(answer)}
    with os.fdopen(writing, "w") as stream:
        json.dump(found | {"statements": counter.seen}, stream)
    os._exit(0)


def _carried_out(
    counter: Counter,
    root: Path,
    clock_ms: int,
    method: str,
    arguments: list[Any],
    named: dict[str, Any],
) -> Any:
    import sqlite3

    from sqlalchemy import event
    from sqlalchemy.pool import Pool

    from tests.project.scenarios import Call, at

    connect = sqlite3.connect

    def traced(*given: Any, **more: Any) -> sqlite3.Connection:
        connection = connect(*given, **more)
        assert isinstance(connection, sqlite3.Connection)
        connection.set_trace_callback(counter.statement)
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]
    event.listen(Pool, "checkin", counter.returned)
    counter.counts = method in ("open", "init")
    if method == "init":
        from callboard.project.project import Project

        return Project.init(root, **named)
    with at(root, clock_ms) as project:
        if method == "open":
            return project.info()
        counter.counts = True
        return Call(method, tuple(arguments), named).on(project)


if __name__ == "__main__":
    main()
