"""The machinery of the fault matrix: a dispatch that stops at one step, and what is done to it.

A step is a call that one of its processes is about to make. That process waits there while the
fault is brought about from outside, for real where that can be: a killed process, a full file
system, a read-only mount, a file that was moved, a ref that was deleted. It judges nothing.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callboard.processes.identity import ProcessIdentity, state
from tests.repositories import git
from tests.system.mounts import mount, small_disk, unmount
from tests.system.world import BOTH, HERE, World, fault_text, make_world
from tests.waiting import until

EXECUTION = "callboard.board.execution."
REGISTRY = EXECUTION + "hosts.local.registry:RunRegistry."
APPEND = "callboard.board.storage.git:GitStore.append"
LAUNCH = EXECUTION + "dispatcher:Dispatcher.launch"
QUEUE = "refs/heads/work-queue"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a dispatch: whose it is, and the call it begins with.

    The one without a target is the worker's own; it is met while the worker waits for a file.
    `whole`: the call that the step consists of, where that is not an append to the board.
    """

    name: str
    role: str
    target: str = ""
    match: str = ""
    whole: str = ""


STEPS = (
    Step("grant", "dispatcher", APPEND, "dispatch_next: "),
    Step("start", "dispatcher", APPEND, "Request: start_"),
    Step("prepare", "dispatcher", REGISTRY + "prepare", whole=REGISTRY + "prepare"),
    Step(
        "spawn", "dispatcher", EXECUTION + "hosts.local.host:LocalHost._spawn",
        whole=EXECUTION + "hosts.local.host:LocalHost._spawn",
    ),
    Step("take", "supervisor", REGISTRY + "claim_running", whole=REGISTRY + "claim_running"),
    Step("bind", "supervisor", APPEND, "Request: bind_"),
    Step(
        "execute", "supervisor",
        whole="callboard.processes.held:HeldProcess.run",
    ),
    Step(
        "prepare_outputs", "supervisor", "callboard.board.outputs.effects:prepare_claim",
        whole="callboard.board.outputs.effects:prepare_claim",
    ),
    Step("finish", "supervisor", APPEND, "Request: finish_"),
    Step(
        "publish_outputs", "supervisor", "callboard.board.outputs.effects:apply_claim",
        whole="callboard.board.outputs.effects:apply_claim",
    ),
    Step("read_back", "supervisor", APPEND, "Request: result_"),
    Step("end", "supervisor", REGISTRY + "finish", whole=REGISTRY + "finish"),
    Step("release", "supervisor", APPEND, "Request: release_"),
    Step(
        "remove_clone", "supervisor", EXECUTION + "disposal:dispose",
        whole=EXECUTION + "disposal:dispose",
    ),
)  # fmt: skip
STEP = {one.name: one for one in STEPS}


@dataclass(slots=True)
class Seen:
    """What there is at one moment: the board's records, the processes, and the words shown.

    `board`: how far the dispatch, its newest Claim and the barrier of its Work have come; "-" where
    there is none, and `absent` where there is no board. `places`: how many are taken on the board.
    `living`: supervisors and workers that run, and how often a worker was executed up to now.
    `said`: the codes with which processes of the dispatch ended. `status`: column, reason and stage
    of the node, or `refused` and the code; `explained` is its stage there. `found`: what
    `reconcile` found, and whose turn it is. `hints`: all that a person is told to do or to know.
    """

    board: str = ""
    places: int = 0
    living: str = ""
    said: str = ""
    status: str = ""
    explained: str = ""
    found: str = ""
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended, and what it printed."""

    status: int
    output: str
    complaint: str

    @property
    def document(self) -> dict[str, Any]:
        """What it printed, as JSON."""
        found: dict[str, Any] = json.loads(self.output)
        return found

    @property
    def error(self) -> dict[str, Any]:
        """The refusal it ended with; empty where it did not."""
        found: dict[str, Any] = self.document.get("error", {})
        return found


@dataclass(slots=True)
class Stage:
    """A world with one Work, whose dispatch is brought to one step and held there."""

    world: World
    step: Step
    disk: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    aside: dict[Path, Path] = field(default_factory=dict)
    tip: str = ""

    @property
    def mark(self) -> Path:
        """A file that is there once the step was reached."""
        return self.world.file("reached")

    @property
    def go(self) -> Path:
        """A file that lets the step go on."""
        return self.world.file("go")

    @property
    def waiting(self) -> Path:
        """A file that is there once a supervisor waits for the board to be writable again."""
        return self.world.file("waiting")

    @property
    def clock(self) -> Path:
        """A file that turns every clock of this world back."""
        return self.world.file("clock-back")

    def environment(self) -> dict[str, str]:
        """What all processes of this world get beside the usual."""
        return {
            "PYTHONPATH": str(HERE / "faults"),
            "CLOCK_BACK": str(self.clock),
            "CALLBOARD_CONFIG_DIR": str(self.world.folders.config),
            "CALLBOARD_STATE_DIR": str(self.world.folders.state),
        }

    def submit(self) -> None:
        """Post the one Work. Its first execution waits where the step is the worker's."""
        first = ["deliver", "completed"]
        if not self.step.target:
            first = [f"say {self.mark}", f"await {self.go}", *first]
        self.world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})

    def hold(self) -> list[dict[str, str]]:
        """The fault that holds the step's process where the step begins."""
        if not self.step.target:
            return []
        return [self.fault(self.step.role, self.step.target, "hold", match=self.step.match)]

    def fault(self, role: str, target: str, action: str, **settings: str) -> dict[str, str]:
        """A fault of that role's processes; it happens before the call unless told otherwise."""
        return {
            "role": role, "target": target, "when": "before", "action": action,
            "mark": str(self.mark), "until": str(self.go), "repository": str(self.world.path),
            **settings,
        }  # fmt: skip

    def begin(self, *more: dict[str, str], verb: str = "dispatch") -> None:
        """Start a dispatcher, and wait until the step is reached."""
        waits = self.fault(
            "supervisor", EXECUTION + "outlast:_pause", "hold", mark=str(self.waiting)
        )
        self.start([*self.hold(), waits, *more], verb)
        self.world.wait_for(self.mark)

    def start(self, faults: list[dict[str, str]], verb: str = "dispatch") -> None:
        """Start a dispatcher with these faults."""
        self.process = self.world.start(
            verb, fault=faults or None, environment=self.environment(), workers=1
        )

    def release(self) -> str:
        """Let the step go on, and wait until all processes have ended or wait for the fault to end;
        the codes that were said."""
        self.go.touch()
        assert self.process is not None
        _output, complaint = self.process.communicate(timeout=90)
        until(lambda: self.waiting.exists() or not self.world.supervisors(), timeout_s=60)
        return self._codes(complaint.decode())

    def _codes(self, complaint: str) -> str:
        """The code of each refusal that a process of the dispatch ended with."""
        logs = self.world.folders.state.glob("runs/*/supervisor.log")
        said = [complaint, *(log.read_text() for log in logs)]
        lines = [text.strip().splitlines()[-1] for text in said if text.strip()]
        return " ".join(sorted({line.partition(":")[0] for line in lines}))

    def kill(self, which: str) -> None:
        """SIGKILL the dispatcher, the supervisors or the worker, and wait for its end."""
        assert self.process is not None
        if which == "dispatcher":
            self.process.kill()
            self.process.wait()
        elif which == "supervisor":
            found = self.world.supervisors()
            assert len(found) == 1
            found[0].kill()
            # A dispatcher that ended before has left it to the system, and its worker dies with it.
            until(lambda: not self.world.supervisors() and self.workers() == 0)
        else:
            identity = ProcessIdentity.from_document(self.world.journal[-1]["process"])
            os.kill(identity.pid, signal.SIGKILL)
            until(lambda: state(identity) == "dead")

    # --- faults of the surroundings ------------------------------------------------------------

    def fill(self) -> None:
        """Fill the disk to the last byte."""
        assert self.disk is not None
        with (self.disk / "filler").open("ab", buffering=0) as stream:
            size = 1024 * 1024
            while size:
                try:
                    stream.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def make_room(self) -> None:
        """Take away what fills the disk."""
        assert self.disk is not None
        (self.disk / "filler").unlink(missing_ok=True)

    def protect(self) -> None:
        """Make the repository read-only."""
        inner = str(self.world.path / ".git")
        assert mount("--bind", inner, inner)
        assert mount("-o", "remount,bind,ro", inner)

    def unprotect(self) -> None:
        """Make it writable again."""
        unmount(self.world.path / ".git")

    def hide_registry(self) -> None:
        """Move the record of runs away."""
        for path in sorted(self.world.folders.state.glob("runs.sqlite3*")):
            self.aside[path] = path.rename(self.world.file(f"aside-{path.name}"))

    def bring_registry(self) -> None:
        """Bring it back in the place of what was made meanwhile."""
        for path in self.world.folders.state.glob("runs.sqlite3*"):
            path.unlink()
        for path, place in self.aside.items():
            place.rename(path)

    def delete_branch(self) -> None:
        """Delete the branch of the board."""
        self.tip = git("rev-parse", QUEUE, cwd=self.world.path)
        git("update-ref", "-d", QUEUE, cwd=self.world.path)

    def restore_branch(self) -> None:
        """Set it back to the commit it was at."""
        assert not self.branch_exists()
        # The log that Git keeps of its own moves would count as a change to the user's repository.
        git(
            "-c",
            "core.logAllRefUpdates=false",
            "branch",
            "work-queue",
            self.tip,
            cwd=self.world.path,
        )

    def branch_exists(self) -> bool:
        """Whether there is a board at all."""
        refs = git("for-each-ref", "--format=%(refname)", QUEUE, cwd=self.world.path)
        return refs == QUEUE

    def lock_branch(self) -> None:
        """Leave behind the lock of a Git process that died long ago."""
        lock = self.world.path / ".git" / (QUEUE + ".lock")
        lock.touch()
        os.utime(lock, (0, 0))

    def unlock_branch(self) -> None:
        """Remove it, as the message says."""
        (self.world.path / ".git" / (QUEUE + ".lock")).unlink()

    # --- looking -------------------------------------------------------------------------------

    def command(self, *words: str, faults: list[dict[str, str]] | None = None) -> Answer:
        """Run the command itself, as a person would."""
        done = subprocess.run(
            [sys.executable, "-m", "callboard", "--repo", str(self.world.path), *words],
            env={
                **os.environ,
                **self.environment(),
                **({} if faults is None else {"FAULT": fault_text(faults)}),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def workers(self) -> int:
        """How many of the workers that wrote in the journal run."""
        found = [ProcessIdentity.from_document(one["process"]) for one in self.world.journal]
        return sum(1 for one in found if state(one) == "alive")

    def look(self, said: str) -> Seen:
        """All there is now; the commands come last, as the last of them changes what it finds."""
        seen = Seen(said=said, board="absent")
        executed = len(self.world.journal)
        seen.living = f"{len(self.world.supervisors())} {self.workers()} {executed}"
        if self.branch_exists():
            self._read(seen)
        self._ask(seen)
        return seen

    def _read(self, seen: Seen) -> None:
        projection = self.world.history().projection
        dispatch = claim = "-"
        for one in projection.dispatches.values():
            dispatch = "released" if one.released else one.state
        for other in projection.claims.values():
            claim = other.state
        (work,) = projection.works.values()
        seen.board = f"{dispatch} {claim} {work.barrier}"
        seen.places = projection.counters.unreleased

    def _ask(self, seen: Seen) -> None:
        status = self.command("status", "--json")
        hints: list[str] = []
        if status.error:
            seen.status = f"refused {status.error['code']}"
            hints.append(status.error["hint"])
        else:
            columns = status.document["columns"]
            ((column, work),) = ((name, one) for name in columns for one in columns[name]["works"])
            seen.status = f"{column} {work['reason']} {work['stage']}"
            hints += [work["next"]] if "next" in work else []
            hints += [work["remark"]] if "remark" in work else []
        explained = self.command("explain", "task", "--json")
        seen.explained = explained.error.get("code") or explained.document["stage"]
        found = self.command("reconcile", "--json")
        if found.error:
            seen.found = f"refused {found.error['code']}"
            hints.append(found.error["hint"])
        else:
            words = [f"{one['found']} {one['needs']}" for one in found.document["found"]]
            seen.found = ", ".join(words)
            hints += [step for one in found.document["found"] for step in one.get("next", ())]
        seen.hints = tuple(dict.fromkeys(hints))


@contextmanager
def stage(root: Path, step: str, *, disk: bool = False) -> Iterator[Stage]:
    """A stage in `root`; nothing of it runs on, or stays mounted, afterwards."""
    if not disk:
        yield from _staged(root, step, None)
        return
    with small_disk(root) as mounted:
        yield from _staged(root, step, mounted)


def _staged(root: Path, step: str, disk: Path | None) -> Iterator[Stage]:
    world = make_world(root)
    try:
        made = Stage(world, STEP[step], disk)
        made.submit()
        yield made
    finally:
        if disk is not None:
            made.make_room()
        world.end()
