"""Commands of the command line as processes of a world, for tests that watch them at work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.system.world import BOTH, World
from tests.waiting import until


class Command:
    """One `callboard` process; what it says on standard error can be read while it goes on."""

    def __init__(
        self,
        world: World,
        *words: str,
        state: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._complaint = world.root / f"stderr-{len(world.processes)}"
        variables = {
            **os.environ,
            **(environment or {}),
            "CALLBOARD_CONFIG_DIR": str(world.folders.config),
            "CALLBOARD_STATE_DIR": str(state or world.folders.state),
        }
        with self._complaint.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "callboard", *words],
                cwd=world.path,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
            )
        world.processes.append(self.process)

    @property
    def said(self) -> list[str]:
        """The lines on standard error up to now."""
        return self._complaint.read_text().splitlines()

    def wait_for(self, text: str) -> None:
        """Until it has said so."""
        until(lambda: any(text in line for line in self.said))

    def end(self, status: int) -> str:
        """Wait until it ends, with that status; what it answered."""
        output, _nothing = self.process.communicate(timeout=90)
        assert self.process.returncode == status, (output, self.said)
        return output.decode()

    def document(self, status: int) -> Any:
        """The same of a command with `--json`: its one document."""
        line, rest = self.end(status).split("\n")
        assert rest == ""
        return json.loads(line)


def slow(world: World, key: str) -> dict[str, Any]:
    """A node that says `<key>-here`, waits for the file `go`, and delivers."""
    name = key.replace("/", "-")
    steps = [f"say {world.file(name + '-here')}", f"await {world.file('go')}", "deliver"]
    return {"key": key, "contract": BOTH, "payload": {"first": [*steps, "completed"]}}
