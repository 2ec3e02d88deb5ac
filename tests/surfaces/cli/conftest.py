"""Parts that tests of the command line share: a repository, and the command line on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from callboard.board.execution.principal import make_principal
from callboard.surfaces.cli.main import root
from tests.ambient import ROOT
from tests.repositories import git, worker_repository

PLAN = """\
graph: sdk
nodes:
- key: inspect
  payload: {task: inspect}
- key: code
  payload: {task: code}
  after: [inspect]
- key: review
  payload: {task: review}
  after: [code]
"""
PROGRAM = [sys.executable, "-m", "callboard"]
RECIPE = 'command = ["callboard", "worker", "exec", "--", "true"]\n'


@dataclass(frozen=True)
class Answer:
    """What a call said and how it ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        line, rest = self.stdout.split("\n")
        assert rest == ""
        return json.loads(line)

    @property
    def error(self) -> dict[str, Any]:
        """The refusal of a `--json` call, which must have said nothing else."""
        assert self.status == 1, self
        assert self.stderr == ""
        document = self.json
        assert list(document) == ["error"]
        error = document["error"]
        assert set(error) == {"code", "message", "hint", "details"}
        assert error["message"]
        assert error["hint"]
        assert isinstance(error, dict)
        return error


class Person:
    """Somebody at a shell in a repository."""

    def __init__(self, folder: Path, config: Path, state: Path) -> None:
        self.folder = folder
        self.config = config
        self.state = state
        self.environment = {
            "CALLBOARD_CONFIG_DIR": str(config),
            "CALLBOARD_STATE_DIR": str(state),
            "CALLBOARD_REPO": str(folder),
        }

    def call(self, *words: str | Path, stdin: str | bytes = b"", **environment: str) -> Answer:
        """Run `callboard` with these words."""
        done = CliRunner().invoke(
            root,
            [*map(str, words)],
            input=stdin,
            env={**self.environment, **environment},
        )
        return Answer(done.exit_code, done.stdout, done.stderr)

    def done(self, *words: str | Path, **more: Any) -> Answer:
        """Run it and expect that it is done."""
        answer = self.call(*words, **more)
        assert answer.status == 0, answer
        return answer

    def ask(self, *words: str | Path, **more: Any) -> Any:
        """The document that a call with `--json` answers."""
        answer = self.done(*words, "--json", **more)
        assert answer.stderr == ""
        return answer.json

    def submit(self, text: str = PLAN, *words: str) -> Any:
        """Post a plan."""
        return self.ask("submit", "-", *words, stdin=text)

    def configure(self, text: str | bytes) -> None:
        """Commit a config file."""
        path = self.folder / ".callboard" / "config.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        git("add", "-A", cwd=self.folder)
        git("commit", "-q", "-m", "settings", cwd=self.folder)

    @property
    def tip(self) -> str | None:
        """The revision of the board's branch."""
        return (
            git("rev-parse", "--verify", "-q", "work-queue", cwd=self.folder, check=False) or None
        )

    @property
    def ledger(self) -> bytes:
        """The ledger's bytes as Git shows them."""
        return git("show", "work-queue:work-queue.jsonl", cwd=self.folder).encode() + b"\n"


def environment(person: Person) -> dict[str, str]:
    """What a real process of that person starts with."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **person.environment, "PATH": path, "PYTHONPATH": str(ROOT / "src")}


def shell(person: Person, *words: str) -> Answer:
    """Run `callboard` as a process of its own, so that it can launch runs."""
    done = subprocess.run(
        [*PROGRAM, *words],
        cwd=person.folder,
        env=environment(person),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def supervisors(person: Person) -> list[psutil.Process]:
    """The supervisors of that person's runs; a process that one of them has just forked looks like
    it for a moment, and is none."""
    found = {}
    for process in psutil.process_iter(["cmdline", "status", "ppid"]):
        words = process.info["cmdline"] or []
        if str(person.state) in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found[process.pid] = process
    return [one for one in found.values() if one.info["ppid"] not in found]


@pytest.fixture
def person(tmp_path: Path) -> Person:
    """A person with an identity, in a repository with one worker recipe."""
    folder = worker_repository(tmp_path / "repository", RECIPE)
    make_principal(tmp_path / "config")
    return Person(folder, tmp_path / "config", tmp_path / "state")


@pytest.fixture
def stranger(tmp_path: Path) -> Person:
    """A person without an identity, in a repository without a commit."""
    folder = tmp_path / "new"
    folder.mkdir()
    git("init", "-q", "-b", "main", cwd=folder)
    return Person(folder, tmp_path / "config", tmp_path / "state")
