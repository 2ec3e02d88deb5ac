"""Where one run keeps its things: the private clone, staging, logs, and the trusted side's notes.

Everything of a run lies below one folder of the user's state folder. The worker gets `work`,
`home`, `tmp`, `staging` and `bin`; the rest is outside its reach as far as paths go.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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
    def command(self) -> Path:
        """This very `callboard`, as the run finds it."""
        return self.bin / "callboard"

    @property
    def scratch(self) -> Path:
        """Temporary files of the trusted side."""
        return self.root / "trusted"

    @property
    def assignment(self) -> Path:
        """The assignment as the worker reads it."""
        return self.root / "assignment.json"

    @property
    def claims(self) -> Path:
        """Which of its Claims had ended before it began."""
        return self.root / "claims.json"

    @property
    def report(self) -> Path:
        """How the run ended and what it staged, for people."""
        return self.root / "report.json"

    @property
    def summary(self) -> Path:
        """What the run came to on the board, for people and in Markdown; `.json` beside it."""
        return self.root / "summary.md"

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

    def reclaim(self) -> None:
        """Give the user back the rights to the run's own folders, which a worker may have taken.

        What is no folder, or is not the user's, stays as it is: whoever needs it then meets it.
        """
        for folder in (self.root, self.scratch, self.staging):
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(folder.lstat().st_mode):
                    folder.chmod(stat.S_IRWXU)

    @contextlib.contextmanager
    def launching(self) -> Iterator[IO[bytes]]:
        """The supervisor's log, locked; given to a supervisor as its output, it stays locked.

        Whoever launches holds it from before the run is prepared, and the supervisor for as long
        as it lives, so that the kernel itself tells whether anybody could still begin this run.
        """
        self.make()
        with self.supervisor_log.open("ab") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            yield log

    def is_held(self) -> bool:
        """Whether the process that launches this run, or its supervisor, still lives."""
        try:
            with self.supervisor_log.open("rb") as log:
                fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def put_command(self) -> None:
        """Give the run this very `callboard`, whatever else is on the search path."""
        script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m callboard "$@"\n'
        path = self.command
        files.publish(path, script.encode("utf-8", "surrogateescape"))
        os.chmod(path, 0o755)
