"""Other processes at the same project, each asked by lines of JSON.

Started as a program it opens the project and does what it is told, one line at a time: a line
names a method, such as `claims.acquire`, and its arguments. Answers and refusals come back as JSON.
The time is that of a clock that stands, or the database's, and then Python's own may be wrong.
`crash_at` kills the process right before its n-th statement to the database, counted from then on.
`stop_at_change` holds it up right before its next change begins, until it is let go.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

import callboard
from tests.ambient import ROOT

# Where the package under test lies, which may itself be a changed copy.
HERE = Path(callboard.__file__).resolve().parent.parent
# Of a test that fails so it is not known what it would have found.
ENDED = "another process ended without an answer"


class Peer:
    """Another process with the project open; what it is asked it does at once."""

    def __init__(
        self,
        root: Path,
        *,
        clock_ms: int | None,
        actor: str = "local",
        busy_ms: int = 20_000,
        package: Path | None = None,
        off_ms: int = 0,
    ) -> None:
        """`clock_ms` None: the time is the database's, and Python's clock is `off_ms` ahead of it.

        `package`: where another version of the package lies (see `tests.project.patched`).
        """
        standing = "" if clock_ms is None else str(clock_ms)
        words = [str(root), standing, actor, str(busy_ms), str(off_ms)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.project.peers", *words],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(package or HERE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ready = self.answer()

    def send(self, method: str, *arguments: Any, **named: Any) -> None:
        """Ask for something without waiting for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([method, arguments, named]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next answer. Fails with `ENDED` where the process ended instead."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"{ENDED}, with status {self.process.wait()}")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def ask(self, method: str, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        self.send(method, *arguments, **named)
        return self.answer()

    def bring(self, method: str, *arguments: Any, **named: Any) -> None:
        """Ask for a change, and hold the process up right before its transaction begins."""
        assert self.ask("stop_at_change") == {"answer": None}
        self.send(method, *arguments, **named)
        found = self.answer()
        assert found == STOPPED, found

    def let_go(self) -> None:
        """Let a process that is held up go on; its answer comes as ever."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """End the process, and wait for it."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def from_the_door(
    peers: Sequence[Peer], method: str, *arguments: Sequence[Any], **named: Any
) -> list[dict[str, Any]]:
    """As `all_at_once`, but nobody begins to write before all others are about to.

    So whatever one of them looked at before its transaction is out of date for all but the first.
    """
    for number, peer in enumerate(peers):
        peer.bring(method, *(one[number] for one in arguments), **named)
    for peer in peers:
        peer.let_go()
    return [peer.answer() for peer in peers]


def all_at_once(
    peers: Sequence[Peer], method: str, *arguments: Sequence[Any], **named: Any
) -> list[dict[str, Any]]:
    """Ask all of them at the same moment; each gets its own one of `arguments`."""
    for number, peer in enumerate(peers):
        peer.send(method, *(one[number] for one in arguments), **named)
    return [peer.answer() for peer in peers]


# --- the other process --------------------------------------------------------------------------


def main(words: list[str]) -> None:
    """Open the project, then do one line after the other."""
    root, standing, actor, busy_ms, off_ms = words
    put_off(int(off_ms))

    from callboard.clock import FixedClock, SystemClock
    from callboard.errors import CallboardError
    from callboard.project.project import Project
    from tests.project.inner import around, create_project, diagnose, open_project

    clock = FixedClock(int(standing or 0))
    mine = around(clock if standing else None, actor=actor, busy_ms=int(busy_ms))
    opened: dict[str, Project] = {}

    def project() -> Project:
        if "it" not in opened:
            opened["it"] = open_project(root, mine)
        return opened["it"]

    def create(key: str) -> Any:
        opened["it"] = create_project(root, mine, key)
        return opened["it"].info()

    def look() -> Any:
        diagnosis = diagnose(root, mine)
        try:
            Project.open(root, read_only=True).close()
        except CallboardError as error:
            code = error.code
        else:
            code = ""
        return {"read_only": code, "diagnosis": [one.code for one in diagnosis.findings]}

    own: dict[str, Any] = {
        "create": create,
        "look": look,
        "open": lambda: project().info(),
        "close": lambda: opened.pop("it").close(),
        "advance": clock.advance,
        "clock": SystemClock().now_ms,
        "crash_at": crash_at,
        "statements": lambda: len(SEEN),
        "stop_at_change": stop_at_change,
    }
    _say({"ready": os.getpid()})
    for line in sys.stdin:
        method, arguments, named = json.loads(line)
        try:
            if method in own:
                found = own[method](*arguments, **named)
            else:
                act: Any = project()
                for name in method.split("."):
                    act = getattr(act, name)
                found = act(*arguments, **named)
        except CallboardError as error:
            _say({"error": error.document()})
        else:
            _say({"answer": msgspec.to_builtins(found)})


def put_off(ms: int) -> None:
    """Let all of Python in this process take the time for `ms` later than it is."""
    true_ns = time.time_ns
    if ms:
        time.time_ns = lambda: true_ns() + ms * 1_000_000
        time.time = lambda: time.time_ns() / 1e9


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


STOPPED = {"stopped": "before a change"}


def stop_at_change() -> None:
    """Before its next change begins this process says so, and waits for a line."""
    from sqlalchemy import Connection, Engine, event

    waits = [True]

    def before(connection: Connection) -> None:
        if waits and connection.get_execution_options().get("writes"):
            waits.clear()
            _say(STOPPED)
            sys.stdin.readline()

    event.listen(Engine, "begin", before)


SEEN: list[str] = []


def crash_at(number: int) -> None:
    """End this process by SIGKILL before statement `number`, the first being 1; 0: only count.

    Every statement that reaches SQLite is counted, those that begin and commit too.
    """
    from sqlalchemy import event
    from sqlalchemy.pool import Pool

    SEEN.clear()

    def count(statement: str) -> None:
        if statement.startswith(("PRAGMA", "--")):
            return
        SEEN.append(statement)
        if len(SEEN) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Pool, "checkout", lambda driver, *_more: driver.set_trace_callback(count))


if __name__ == "__main__":
    main(sys.argv[1:])
