"""A repository with layers of one small workflow set, and somebody at a shell in it.

The one role `worker` plays what is said when the set is made; its agent is a shell or Python
command. Whole trees with children are played by `tests.layers.whole`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from click.testing import CliRunner

from callboard.surfaces.cli.main import root
from tests.ambient import ROOT
from tests.repositories import repository
from tests.surfaces.cli.conftest import Answer

CONTRACT = """description: One worker.
roles: [worker]
goal_control_roles: [worker]
blocker_roles: [worker]
request_roles: [worker]
acceptance_roles: [worker]
evaluation_roles: [worker]
recovery: {recovery}
caps: {{max_turns: {turns}, max_role_failures: 2}}
"""
CONFIG = """run_on_start: true
harness:
  command: {command}
  timeout_s: 60
  grace_s: 1
  environment: [PATH]
responsibility: Do it.
"""
SAYS_HELLO = ("sh", "-c", "echo hello; echo more >&2")
WAITS = ("sh", "-c", "touch begun; until [ -e go ]; do sleep 0.02; done; echo gone on")
"""An agent in the repository, whose file `begun` says that it runs; the file `go` ends it."""


@dataclass(frozen=True)
class Layered:
    """Somebody at a shell in a repository."""

    folder: Path

    @classmethod
    def make(
        cls, folder: Path, command: tuple[str, ...] = SAYS_HELLO, *, turns: int = 2
    ) -> Layered:
        """A repository with the set `small`; its layers end after so many turns."""
        here = cls(repository(folder))
        small = here.folder / ".callboard" / "workflow_sets" / "small"
        role = small / "workflows" / "worker"
        role.mkdir(parents=True)
        (small / "contract.yaml").write_text(CONTRACT.format(recovery="drain", turns=turns))
        (role / "config.yaml").write_text(CONFIG.format(command=json.dumps(list(command))))
        (role / "prompt.md").write_text("Read {assignment}, and do what it says.\n")
        return here

    def call(self, *words: str | Path, repo: Path | None = None, stdin: bytes = b"") -> Answer:
        """Run `callboard layers` with these words."""
        done = CliRunner().invoke(
            root,
            ["layers", *map(str, words)],
            input=stdin,
            env={"CALLBOARD_REPO": str(repo or self.folder)},
        )
        return Answer(done.exit_code, done.stdout, done.stderr)

    def ask(self, *words: str | Path) -> Any:
        """The document that a call with `--json` answers, which is done."""
        answer = self.call(*words, "--json")
        assert (answer.status, answer.stderr) == (0, ""), answer
        return answer.json

    def begin(self, goal: str = "Have it done") -> str:
        """A tree that has not run yet; its session id."""
        begun = self.ask("start", "--goal", goal, "--set", "small")
        return str(begun["session_id"])

    def layer(self, session: str) -> Path:
        """The folder of a root layer."""
        return self.folder / ".callboard" / "layers" / "sessions" / session

    def process(
        self, *words: str, cwd: Path | None = None, stdout: int | IO[bytes] = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        """Start `callboard layers` as a process of its own; its group can be sent signals."""
        outer = {name: value for name, value in os.environ.items() if name != "CALLBOARD_REPO"}
        return subprocess.Popen(
            [sys.executable, "-m", "callboard", "layers", *words],
            cwd=cwd or self.folder,
            env=outer | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes], *, signal_number: int | None = None) -> Answer:
    """How it ended and what it said; with a signal, as Ctrl-C sends it to the whole group."""
    if signal_number is not None:
        os.killpg(process.pid, signal_number)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return Answer(process.returncode, (out or b"").decode(), err.decode())
