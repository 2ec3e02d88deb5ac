"""A whole board in a folder: a user's repository, workers that keep a journal, the host's state.

Everything is real: Git, processes, the run registry. It starts dispatching processes, and judges
the state they leave behind by the laws that hold after every fault.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from callboard.board.board import Board, Folders
from callboard.board.execution.dispatcher import Dispatcher
from callboard.board.execution.hosts.local.registry_rows import WorkerRun, worker_run
from callboard.board.execution.principal import make_principal
from callboard.board.execution.reconcile import Reconciler
from callboard.board.ledger.history import History
from callboard.board.projection.entities import WorkState
from callboard.board.protocol import operations as ops
from callboard.board.publishing.plan import parse_plan
from callboard.clock import Clock
from callboard.processes import members
from callboard.processes.identity import ProcessFacts
from tests.repositories import git
from tests.waiting import until

HERE = Path(__file__).resolve().parent
WORKER = [sys.executable, str(HERE / "worker.py")]
DISPATCHING = str(HERE / "dispatching.py")
CONFIG = "[work_queue]\nretry = {max_attempts = 3, backoff_seconds = 1}\n"
BOTH = {"artifact": 1, "patch": 1}
_OWN = ("objects", "refs/heads/work-queue", "refs/callboard", "refs/heads/callboard", "callboard")


@dataclass(slots=True)
class World:
    """One repository with a board. `path` is what commands are started with."""

    root: Path
    path: Path
    before: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def folders(self) -> Folders:
        """The user's folders of this world."""
        return Folders(self.root / "config", self.root / "state")

    def as_person(self) -> dict[str, str]:
        """The environment of a person of this world."""
        return {
            **os.environ,
            "CALLBOARD_CONFIG_DIR": str(self.folders.config),
            "CALLBOARD_STATE_DIR": str(self.folders.state),
        }

    @property
    def journal(self) -> list[dict[str, Any]]:
        """What the workers wrote, in order."""
        path = self.root / "journal"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def file(self, name: str) -> Path:
        """A file for tests and workers to signal each other with."""
        return self.root / name

    def open(self) -> Board:
        """The board, opened in this process."""
        return Board.open(self.path, self.folders)

    def submit(self, *nodes: Mapping[str, Any], request_id: str | None = None) -> list[str]:
        """Post nodes with the journal in their payload; answers the Work ids."""
        full = [
            {**node, "payload": {"journal": str(self.root / "journal"), **node.get("payload", {})}}
            for node in nodes
        ]
        plan = parse_plan(json.loads(json.dumps({"graph": "g", "nodes": full})))
        with self.open() as board:
            parts = board.submit(plan, request_id=request_id)
            assert len(parts) == 1
            works = board.history().projection.works.values()
        keys = {node["key"] for node in nodes}
        return [state.work.work_id for state in works if state.work.node_key in keys]

    # --- processes -----------------------------------------------------------------------------

    def start(
        self,
        verb: str = "run",
        *,
        workers: int = 4,
        fault: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a dispatching process, with a fault if one is given."""
        outer = {**os.environ, **(environment or {})}
        if fault is not None:
            path = [str(HERE / "faults"), *filter(None, [outer.get("PYTHONPATH")])]
            outer |= {"FAULT": fault_text(fault), "PYTHONPATH": os.pathsep.join(path)}
        process = subprocess.Popen(
            [
                sys.executable, DISPATCHING, verb, str(self.path), str(self.folders.config),
                str(self.folders.state), str(workers),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=outer,
            cwd=cwd or self.root,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def finish(self, process: subprocess.Popen[bytes], *, timeout_s: float = 90.0) -> Any:
        """Wait for a dispatching process; its answer, or None where it was killed."""
        output, complaint = process.communicate(timeout=timeout_s)
        if process.returncode == -signal.SIGKILL:
            return None
        assert process.returncode == 0, complaint.decode()
        return json.loads(output)

    def run(self, *, fault: Mapping[str, str] | None = None, workers: int = 4) -> Any:
        """Run the board in another process until idle."""
        return self.finish(self.start(fault=fault, workers=workers))

    def fault(self, target: str, when: str, *, role: str, match: str = "") -> dict[str, str]:
        """A kill at one point of the processes of that role."""
        return {
            "role": role, "target": target, "when": when, "match": match, "action": "kill",
            "mark": str(self.root / "killed"),
        }  # fmt: skip

    def reconcilers(
        self, count: int, passes: int, clock: Clock | None = None
    ) -> list[dict[str, str]]:
        """What `count` reconcilers, side by side, find about the groups in each of their passes."""

        def reconcile(_number: int) -> list[dict[str, str]]:
            with Board.open(self.path, self.folders, clock=clock) as board:
                reconciler = Reconciler(Dispatcher(board.site, os.environ))
                return [reconciler.run_pass().dispatches for _pass in range(passes)]

        with ThreadPoolExecutor(count) as pool:
            return [found for each in pool.map(reconcile, range(count)) for found in each]

    def begin_together(self, count: int) -> None:
        """Let `count` processes of `contending.py` begin once all of them are there."""
        until(lambda: len(list(self.root.glob("ready-*"))) == count, timeout_s=120)
        self.file("go").touch()

    @staticmethod
    def wait_for(path: Path) -> None:
        """Wait until somebody made that file."""
        until(path.exists)

    def end(self) -> None:
        """Leave nothing running: dispatchers, supervisors, what carries a run's mark."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        for process_ in self.supervisors():
            # It may end by itself just now.
            with contextlib.suppress(psutil.NoSuchProcess):
                process_.kill()
        for facts in self.marked():
            members.send(facts, signal.SIGKILL)

    def supervisors(self) -> list[psutil.Process]:
        """The supervisors of this world that run."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            words = process.info["cmdline"] or []
            if str(self.folders.state) in words and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        return [one for one in found if one.pid not in {own.pid for own in self.processes}]

    def marked(self) -> list[ProcessFacts]:
        """The living processes with the mark of one of this world's runs."""
        runs = {row.run_id for row in self.rows()}
        found = []
        for facts in members.everyone():
            with contextlib.suppress(psutil.Error, OSError):
                mark = psutil.Process(facts.pid).environ().get(members.RUN_MARK)
                if not facts.ended and mark in runs:
                    found.append(facts)
        return found

    # --- what is on record ---------------------------------------------------------------------

    def ledger(self) -> bytes:
        """The ledger as Git has it."""
        return ledger_bytes(self.path)

    def history(self) -> History:
        """The ledger, read cold; what its checkpoints stand for is within reach."""
        return History.read(self.ledger(), self._ledger_at)

    def _ledger_at(self, revision: str) -> bytes:
        with self.open() as board:
            return board.site.store.ledger_at(revision)

    def works(self) -> dict[str, WorkState]:
        """Every Work's state by node key."""
        return {one.work.node_key: one for one in self.history().projection.works.values()}

    def rows(self) -> list[WorkerRun]:
        """All rows of the run registry."""
        path = self.folders.state / "runs.sqlite3"
        if not path.exists():
            return []
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.row_factory = sqlite3.Row
            found = database.execute("SELECT * FROM worker_run ORDER BY rowid").fetchall()
            return [worker_run(row) for row in found]

    def operations(self) -> list[ops.Operation]:
        """Every operation of the ledger, in order."""
        history = self.history()
        return [
            operation
            for ordinal in range(history.projection.ordinal)
            for operation in history.commit(ordinal).operations
        ]

    # --- laws ----------------------------------------------------------------------------------

    def check_settled(self) -> None:
        """What holds once the board is idle, whatever was killed on the way."""
        until(lambda: not self.supervisors())
        projection = self.history().projection
        for state in projection.works.values():
            settled = state.barrier == "verified" or state.state == "cancelled"
            assert settled, (state.work.node_key, state.state, state.barrier)
            assert state.state != "cancelled" or state.cancellation_reason
        self.check_once()
        self.check_nothing_open()
        self.check_repository()

    def check_once(self) -> None:
        """Nothing of what may happen once has happened twice."""
        counts: Counter[tuple[str, str]] = Counter()
        for operation in self.operations():
            for kind, names in (
                (ops.Claim, ("claim_id",)),
                (ops.Completion, ("claim_id", "work_id")),
                (ops.Result, ("claim_id", "work_id")),
                (ops.ClaimCancellation, ("claim_id",)),
                (ops.WorkCancellation, ("work_id",)),
                (ops.DeliveryFailure, ("work_id",)),
                (ops.Release, ("dispatch_id",)),
            ):
                if isinstance(operation, kind):
                    for name in names:
                        counts[kind.__name__, getattr(operation, name)] += 1
        assert not {key: count for key, count in counts.items() if count > 1}
        begun = Counter(line["claim_id"] for line in self.journal)
        assert not {claim: count for claim, count in begun.items() if count > 1}
        assert not [line for line in self.journal if line["living"]]

    def check_nothing_open(self) -> None:
        """No reservation, no run and no process is left over."""
        projection = self.history().projection
        assert not projection.open_dispatches
        assert not projection.pending_deliveries
        assert projection.counters.unreleased == 0
        assert {claim.state for claim in projection.claims.values()} <= {"completed", "cancelled"}
        assert [row.state for row in self.rows() if row.state not in ("ended", "void")] == []
        assert self.marked() == []

    def check_repository(self) -> None:
        """Git finds no fault, the checkout is as it was, and only verified outputs are seen."""
        git("fsck", "--strict", "--no-dangling", cwd=self.path)
        assert snapshot(self.path) == self.before
        results = [one for one in self.operations() if isinstance(one, ops.Result)]
        outputs: list[Any] = [
            output for one in results for output in one.descriptor.get("outputs", [])
        ]
        branches = {f"refs/heads/{one['branch']}" for one in outputs if "branch" in one}
        artifacts = {one["ref"] for one in outputs if one["type"] == "artifact"}
        refs = git("for-each-ref", "--format=%(refname)", cwd=self.path).splitlines()
        assert {one for one in refs if one.startswith("refs/heads/callboard/")} == branches
        assert {one for one in refs if one.startswith("refs/callboard/artifacts/")} == artifacts


def fault_text(fault: Mapping[str, str] | Sequence[Mapping[str, str]]) -> str:
    """What the variable FAULT says of one fault, or of several."""
    document = dict(fault) if isinstance(fault, Mapping) else [dict(one) for one in fault]
    return json.dumps(document)


def ledger_bytes(path: Path) -> bytes:
    """The bytes of the ledger file on the board's branch."""
    return subprocess.run(
        ["git", "show", "work-queue:work-queue.jsonl"], cwd=path, check=True, capture_output=True
    ).stdout


def recipe(command: Sequence[str], **settings: Any) -> str:
    """A worker recipe."""
    values = {"command": list(command), "outputs": ["artifact", "patch"], **settings}
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


def make_world(
    root: Path,
    *,
    recipes: Mapping[str, str] | None = None,
    config: str = CONFIG,
    object_format: str = "sha1",
) -> World:
    """A repository with recipes and settings committed, and an identity for its user."""
    path = root / "repository"
    path.mkdir(parents=True, exist_ok=True)
    git("init", "-q", "-b", "main", f"--object-format={object_format}", cwd=path)
    workers = path / ".callboard" / "workers"
    workers.mkdir(parents=True)
    for name, text in (recipes or {"default": recipe(WORKER)}).items():
        (workers / f"{name}.toml").write_text(text)
    (path / ".callboard" / "config.toml").write_text(config)
    (path / "README").write_text("the user's own\n")
    git("add", "-A", cwd=path)
    git("commit", "-q", "-m", "first", cwd=path)
    world = World(root, path)
    make_principal(world.folders.config)
    git("status", cwd=path)
    world.before = snapshot(path)
    return world


def snapshot(path: Path) -> dict[str, str]:
    """The user's repository to the byte: work tree and Git folders, the board's own places apart.

    The board's own: its branch, its refs, the branches it delivers, the object store, its locks.
    """
    found = {"status": git("--no-optional-locks", "status", "--porcelain", cwd=path, check=False)}
    shared = Path(git("rev-parse", "--path-format=absolute", "--git-common-dir", cwd=path))
    for base in {path.resolve(), shared.resolve()}:
        for place in base.rglob("*"):
            if shared.resolve() in place.parents and _is_own(place.relative_to(shared.resolve())):
                continue
            status = place.lstat()
            mode = stat.filemode(status.st_mode)
            content = ""
            if place.is_symlink():
                content = os.readlink(place)
            elif place.is_file():
                content = hashlib.sha256(place.read_bytes()).hexdigest()
            found[str(place)] = f"{mode} {content}"
    return found


def _is_own(place: Path) -> bool:
    text = place.as_posix()
    return text.startswith(_OWN) or text == "refs/callboard"
