"""Several machines with one board on a bare remote: each a clone with a user of its own.

What parts the machines is what parts real ones: repositories, users' folders, run registries. They
share the remote, and a journal that the workers keep.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from callboard.board.board import Board
from callboard.board.execution.principal import make_principal
from tests.system.world import World, make_world

REMOTE = '[board]\nremote = "origin"\nremote_timeout_seconds = {timeout_s}\n'
QUEUE = "[work_queue]\nretry = {{max_attempts = 3, backoff_seconds = 1}}\n"


@dataclass(slots=True)
class Machine(World):
    """One machine. `environment` is what its processes have besides this one's."""

    hub: Path = Path()
    environment: dict[str, str] = field(default_factory=dict)

    def open(self) -> Board:
        return Board.open(self.path, self.folders, environment={**os.environ, **self.environment})

    def ledger(self) -> bytes:
        """The ledger as this machine reads it."""
        with self.open() as board:
            return board.history().data

    def callboard(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the command line here."""
        variables = {
            **os.environ,
            **self.environment,
            "CALLBOARD_CONFIG_DIR": str(self.folders.config),
            "CALLBOARD_STATE_DIR": str(self.folders.state),
        }
        return subprocess.run(
            [sys.executable, "-m", "callboard", *words],
            cwd=self.path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=120,
        )


class Machines:
    """A remote and the machines on it; the first one has made and pushed the settings."""

    def __init__(
        self,
        root: Path,
        *,
        recipes: Mapping[str, str] | None = None,
        timeout_s: int = 60,
        settings: str | None = None,
    ) -> None:
        self._root = root
        self.hub = root / "hub.git"
        config = (REMOTE + QUEUE).format(timeout_s=timeout_s) if settings is None else settings
        first = make_world(root / "one", recipes=recipes, config=config)
        git = ["git", "-c", "init.defaultBranch=main"]
        subprocess.run([*git, "init", "-q", "--bare", str(self.hub)], check=True)
        for words in (
            ["remote", "add", "origin", f"file://{self.hub}"],
            ["push", "-q", "origin", "main"],
            ["fetch", "-q", "origin"],
        ):
            subprocess.run([*git, *words], cwd=first.path, check=True)
        self.all = [self._machine("one", first.path)]

    def add(self, name: str, *options: str) -> Machine:
        """One more machine, with a fresh clone."""
        path = self._root / name / "repository"
        path.parent.mkdir(parents=True)
        subprocess.run(
            ["git", "clone", "-q", *options, f"file://{self.hub}", str(path)], check=True
        )
        self.all.append(self._machine(name, path))
        return self.all[-1]

    def _machine(self, name: str, path: Path) -> Machine:
        machine = Machine(self._root / name, path, hub=self.hub, environment={"MACHINE": name})
        make_principal(machine.folders.config)
        return machine

    def hook(self, name: str, script: str) -> None:
        """Let the remote run `script` as its hook of that name."""
        path = self.hub / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def refs(self) -> dict[str, str]:
        """Every ref of the remote."""
        answer = subprocess.run(
            ["git", "for-each-ref", "--format=%(refname) %(objectname)"],
            cwd=self.hub,
            check=True,
            capture_output=True,
            text=True,
        )
        return dict(line.split(" ") for line in answer.stdout.splitlines())

    def end(self) -> None:
        """Leave nothing running on any machine."""
        for machine in self.all:
            machine.end()
