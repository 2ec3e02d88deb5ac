"""The processes of a soak: they are started again when they die, and hit at random.

Signals go only to processes of this soak's own world, found anew each time and held by their start
time, never to a bare number or to a name.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil

from callboard.board.execution.hosts.local.host import SUPERVISOR_MODULE
from tests.system.soak_plans import DISPATCHERS, WORKER, WORKERS
from tests.system.world import World

DISPATCHER, RECONCILER, SUBMITTER = "dispatcher", "reconciler", "submitter"
COMPACTOR = "compactor"
SUPERVISOR, RUNNING, HELPER = "supervisor", "worker", "helper"
# How the hits are dealt out; a part of which nobody lives passes its share on.
_SHARES = {
    DISPATCHER: 24, SUPERVISOR: 28, RUNNING: 24, RECONCILER: 6, SUBMITTER: 6, COMPACTOR: 6,
    HELPER: 6,
}  # fmt: skip
_LISTENING = (DISPATCHER, SUPERVISOR, RECONCILER)
# How what was asked to end ends, also before it could listen, and what was killed.
HIT = frozenset({143, -signal.SIGTERM, -signal.SIGKILL})
# Longer than a launch is left alone, and longer than a writer of a local board waits for its turn.
_LONG_STOP_S = 75.0


class Unasked(NamedTuple):
    """A process that ended though nobody had killed it: its part, status and last words."""

    part: str
    status: int
    words: str


@dataclass(slots=True)
class Cast:
    """The processes that are to be there all the time, and those that come and go."""

    world: World
    environment: dict[str, str] = field(default_factory=dict)
    living: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    starts: Counter[str] = field(default_factory=Counter)
    unasked: list[Unasked] = field(default_factory=list)
    _logs: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environment = {
            **os.environ,
            "CALLBOARD_CONFIG_DIR": str(self.world.folders.config),
            "CALLBOARD_STATE_DIR": str(self.world.folders.state),
        }
        self.world.file("logs").mkdir()

    def command(self, *words: str) -> list[str]:
        """The command line of `callboard` on this world's board."""
        return [sys.executable, "-m", "callboard", *words, "--repo", str(self.world.path)]

    def start(self, name: str, argv: list[str]) -> subprocess.Popen[bytes]:
        """Start a process whose words go into files; `name` is its part and a number."""
        part = part_of(name)
        self.starts[part] += 1
        stem = self.world.file("logs") / f"{part}-{self.starts[part]}"
        with stem.with_suffix(".out").open("wb") as out, stem.with_suffix(".err").open("wb") as err:
            process = subprocess.Popen(
                argv, stdout=out, stderr=err, env=self.environment, cwd=self.world.root
            )
        self.world.processes.append(process)
        self._logs[process.pid] = str(stem.with_suffix(".err"))
        self.living[name] = process
        return process

    def words(self, part: str, kind: str) -> str:
        """What the latest process of a part has said: `out` or `err`."""
        path = self.world.file("logs") / f"{part}-{self.starts[part]}.{kind}"
        return path.read_text(errors="replace")

    def tend(self) -> None:
        """Start again whatever has died and should be there."""
        dispatching = self.command("run", "--workers", str(WORKERS))
        reconciling = self.command("reconcile", "--watch")
        wanted = {f"{DISPATCHER}-{number}": dispatching for number in range(DISPATCHERS)}
        for name, argv in {**wanted, f"{RECONCILER}-0": reconciling}.items():
            process = self.living.get(name)
            if process is not None and process.poll() is None:
                continue
            if process is not None:
                self.note(name, process)
            self.start(name, argv)

    def forget(self, process: subprocess.Popen[bytes]) -> None:
        """Take one off the list whose end was as it should be."""
        self.world.processes.remove(process)
        del self._logs[process.pid]

    def note(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Remember an end that was not this soak's doing, nor that of a process which was done."""
        self.world.processes.remove(process)
        words = Path(self._logs.pop(process.pid)).read_text(errors="replace")[-2000:]
        part = part_of(name)
        if process.returncode in HIT or (process.returncode == 0 and part != DISPATCHER):
            return
        self.unasked.append(Unasked(part, process.returncode, words))

    def dismiss(self, *, timeout_s: float) -> list[int]:
        """Ask all to end, as an operator does; answers their statuses."""
        for process in self.living.values():
            process.send_signal(signal.SIGTERM)
        return [process.wait(timeout_s) for process in self.living.values()]


def part_of(name: str) -> str:
    """`dispatcher-1` is a dispatcher."""
    return name.rpartition("-")[0]


class Tormentor:
    """Hits one process at a time; what it stopped goes on later, or is killed."""

    def __init__(self, cast: Cast, seed: int, *, long_stops: bool) -> None:
        self._cast = cast
        self._chance = random.Random(f"torment-{seed}")
        self._long_stops = long_stops
        self._stopped: list[tuple[float, str, psutil.Process]] = []
        self.hits: Counter[str] = Counter()

    def strike(self) -> None:
        """Kill, stop or end one process of a part drawn by lot."""
        found = self.find()
        parts = [part for part in _SHARES if found[part]]
        if not parts:
            return
        part = self._chance.choices(parts, [_SHARES[one] for one in parts])[0]
        process = self._chance.choice(found[part])
        lot = self._chance.random()
        if lot < 0.1 and part in _LISTENING:
            self._send(part, process, signal.SIGTERM)
        elif lot < 0.55:
            self._send(part, process, signal.SIGKILL)
        elif self._send(part, process, signal.SIGSTOP):
            pause_s = self._chance.uniform(0.3, 8.0)
            if self._long_stops and self._chance.random() < 0.05:
                pause_s = _LONG_STOP_S
            self._stopped.append((time.monotonic() + pause_s, part, process))

    def thaw(self, *, everybody: bool = False) -> None:
        """Let go on, or kill, whatever has stood still for long enough."""
        now = time.monotonic()
        due = [one for one in self._stopped if everybody or one[0] <= now]
        self._stopped = [one for one in self._stopped if one not in due]
        for _due, part, process in due:
            number = signal.SIGKILL if self._chance.random() < 0.3 else signal.SIGCONT
            self._send(part, process, number)

    def find(self) -> dict[str, list[psutil.Process]]:
        """The living processes of this world, by part, in a fixed order."""
        found: dict[str, list[psutil.Process]] = {part: [] for part in _SHARES}
        for name, process in sorted(self._cast.living.items()):
            if process.poll() is None:
                found[part_of(name)].append(psutil.Process(process.pid))
        for one in psutil.process_iter(["cmdline", "status"]):
            words = one.info["cmdline"] or []
            if one.info["status"] in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                continue
            if SUPERVISOR_MODULE in words and str(self._cast.world.folders.state) in words:
                found[SUPERVISOR].append(one)
            elif str(WORKER) in words and str(self._cast.world.file("journal")) in words:
                found[RUNNING].append(one)
        found[HELPER] = _helpers(found)
        return found

    def _send(self, part: str, process: psutil.Process, number: signal.Signals) -> bool:
        try:
            # Compares the start time, so that a number that was given away is not hit.
            process.send_signal(number)
        except psutil.Error:
            return False
        self.hits[f"{part} {number.name}"] += 1
        return True


def _helpers(found: dict[str, list[psutil.Process]]) -> list[psutil.Process]:
    """Git and whatever else the parts have started themselves."""
    known = {process.pid for processes in found.values() for process in processes}
    helpers: dict[int, psutil.Process] = {}
    for part in (DISPATCHER, SUPERVISOR):
        for process in found[part]:
            try:
                children = process.children(recursive=True)
            except psutil.Error:
                continue
            helpers |= {child.pid: child for child in children if child.pid not in known}
    return [helpers[pid] for pid in sorted(helpers)]
