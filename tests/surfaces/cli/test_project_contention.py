"""Many processes that want the same work, each through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.surfaces.project.shared import Shared

CONTENDERS = 16
ROUNDS = 50

# One of many: for each line it gets ready, waits at the gate, and runs that command line.
CONTENDER = """
import json, os, sys
from click.testing import CliRunner
from callboard.project.project import Project
from callboard.surfaces.cli.main import root
gate = int(sys.argv[1])
for line in sys.stdin:
    print("ready", flush=True)
    os.read(gate, 1)
    done = CliRunner().invoke(root, json.loads(line))
    print(json.dumps([done.exit_code, json.loads(done.stdout)]), flush=True)
"""


# One command as it was typed, held up until the gate is gone.
HELD_UP = """
import os, sys
import callboard.project.project
from callboard.surfaces.cli.main import root
gate = int(sys.argv.pop(1))
print("ready", flush=True)
os.read(gate, 1)
root()
"""


class Crowd:
    """Processes that begin the same thing at the same moment."""

    def __init__(self, folder: Path, size: int) -> None:
        waiting, self._gate = os.pipe()
        path = os.pathsep.join(sys.path)
        self._members = [
            subprocess.Popen(
                [sys.executable, "-c", CONTENDER, str(waiting)],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": path, "CALLBOARD_REPO": str(folder)},
                pass_fds=[waiting],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _one in range(size)
        ]
        os.close(waiting)

    def all_do(self, commands: list[list[str]]) -> list[tuple[int, Any]]:
        """What comes of one command each."""
        for member, command in zip(self._members, commands, strict=True):
            assert member.stdin is not None
            member.stdin.write(json.dumps(command) + "\n")
            member.stdin.flush()
        assert {self._line(member) for member in self._members} == {"ready\n"}
        os.write(self._gate, b"x" * len(self._members))
        return [tuple(json.loads(self._line(member))) for member in self._members]

    def _line(self, member: subprocess.Popen[str]) -> str:
        assert member.stdout is not None
        return member.stdout.readline()

    def end(self) -> None:
        """Send everybody home."""
        os.close(self._gate)
        for member in self._members:
            member.communicate()


@contextmanager
def crowd(folder: Path, size: int = CONTENDERS) -> Iterator[Crowd]:
    found = Crowd(folder, size)
    try:
        yield found
    finally:
        found.end()


def test_of_sixteen_one_gets_the_work_and_the_rest_are_told_who(tmp_path: Path) -> None:
    """C-01: fifty rounds, one item each, by sixteen processes that run the command line."""
    items = "".join(f"  - id: W{number}\n    title: w\n" for number in range(ROUNDS))
    shared = Shared(tmp_path / "demo").begin(f"work_items:\n{items}")
    with crowd(shared.folder) as contenders:
        for number in range(ROUNDS):
            words = ["project", "session", "start", "--work", f"W{number}", "--claim", "--json"]
            answers = contenders.all_do(
                [[*words, "--agent", f"p{one}"] for one in range(CONTENDERS)]
            )
            winners = [document["session"]["agent"] for status, document in answers if status == 0]
            assert len(winners) == 1, answers
            refusals = [document["error"] for status, document in answers if status == 1]
            assert len(refusals) == CONTENDERS - 1
            assert {one["code"] for one in refusals} == {"claim_held"}
            assert {one["details"]["agent"] for one in refusals} == set(winners)
    acquired = shared.events("--type", "claim.acquired")
    assert [one["work"] for one in acquired] == [f"W{number}" for number in range(ROUNDS)]
    assert len(shared.events("--type", "session.started")) == ROUNDS


def test_of_many_that_ask_for_the_next_each_gets_another_one(tmp_path: Path) -> None:
    items = "".join(f"  - id: W{number}\n    title: w\n" for number in range(10))
    shared = Shared(tmp_path / "demo").begin(f"work_items:\n{items}")
    with crowd(shared.folder) as contenders:
        words = ["project", "session", "next", "--json", "--agent"]
        answers = contenders.all_do([[*words, f"p{one}"] for one in range(CONTENDERS)])
    taken = [document["work"]["key"] for status, document in answers if status == 0]
    assert sorted(taken) == [f"W{number}" for number in range(10)]
    assert [status for status, _document in answers].count(3) == CONTENDERS - 10


def test_the_next_item_goes_to_who_asked_as_they_said(tmp_path: Path) -> None:
    """C-02: one item, two processes, one name by flag and one by environment; a file says `c`."""
    shared = Shared(tmp_path / "demo").begin("work_items:\n  - id: X\n    title: x\n")
    for name in ("config.toml", "config.local.toml"):
        (shared.folder / ".callboard" / name).write_text('agent = "c"\n[project]\nagent = "c"\n')
    waiting, gate = os.pipe()
    words = ["project", "session", "next", "--json"]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-c", HELD_UP, str(waiting), *words, *more],
            cwd=shared.folder,
            env=own | environment,
            pass_fds=[waiting],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, more, environment in (
            ("a", ["--agent", "a"], {}),
            ("b", [], {"CALLBOARD_AGENT": "b"}),
        )
    }
    os.close(waiting)
    for process in processes.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    os.close(gate)
    ended = {}
    for name, process in processes.items():
        out, err = process.communicate(timeout=60)
        assert err == ""
        ended[name] = (process.returncode, json.loads(out))
    (winner,) = (name for name, (status, _document) in ended.items() if status == 0)
    (loser,) = ended.keys() - {winner}
    document = ended[winner][1]
    assert document["work"]["key"] == "X"
    assert (document["session"]["agent"], document["claim"]["agent"]) == (winner, winner)
    status, empty = ended[loser]
    assert status == 3
    assert (empty["work"], empty["session"], empty["claim"]) == (None, None, None)
    history = shared.events()
    named = {event["body"]["agent"] for event in history if "agent" in event["body"]}
    assert named == {winner}
