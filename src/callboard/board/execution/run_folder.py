"""Where one run keeps its things: the private clone, staging, logs, and the trusted side's notes.

Everything of a run lies below one folder of the user's state folder. The worker gets `work`,
`home`, `tmp`, `staging` and `bin`; the rest is outside its reach as far as paths go.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from callboard import files

RUNS_FOLDER = "runs"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths of one run; `make` creates the folders."""

    root: Path

    @classmethod
    def of(cls, state: Path, run_id: str) -> RunFolder:
        """The folder of `run_id` below the user's state folder."""
        return cls(state / RUNS_FOLDER / run_id)

    @property
    def work(self) -> Path:
        """The private clone; made by the workspace, not by `make`."""
        return self.root / "work"

    @property
    def staging(self) -> Path:
        """Where the worker leaves its wishes; made with the run's terms, not by `make`."""
        return self.root / "staging"

    @property
    def home(self) -> Path:
        """The run's empty HOME."""
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        """The run's TMPDIR."""
        return self.root / "tmp"

    @property
    def bin(self) -> Path:
        """First on the run's search path."""
        return self.root / "bin"

    @property
    def scratch(self) -> Path:
        """Temporary files of the trusted side."""
        return self.root / "trusted"

    @property
    def assignment(self) -> Path:
        """The assignment as the worker reads it."""
        return self.root / "assignment.json"

    @property
    def report(self) -> Path:
        """How the run ended and what it staged, for people."""
        return self.root / "report.json"

    @property
    def supervisor_log(self) -> Path:
        """What the supervisor itself had to say."""
        return self.root / "supervisor.log"

    def log(self, command: str, stream: str) -> Path:
        """The captured output of one of the run's commands."""
        return self.root / f"{command}.{stream}.log"

    def make(self) -> None:
        """Create the folders, private to the user; what exists already stays."""
        for folder in (
            self.root,
            self.home,
            self.temporary,
            self.bin,
            self.scratch,
        ):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put_command(self) -> None:
        """Give the run this very `callboard`, whatever else is on the search path."""
        script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m callboard "$@"\n'
        path = self.bin / "callboard"
        files.publish(path, script.encode("utf-8", "surrogateescape"))
        os.chmod(path, 0o755)
