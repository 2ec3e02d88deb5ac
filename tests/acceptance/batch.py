"""One real run for several tasks, with all that a worker may say of them, and what came of it.

`play_six` takes a board through it; tests look at what it left, and change nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.protocol import operations as ops
from tests.system.draining import Command
from tests.system.world import HERE, World, fault_text, make_world, recipe
from tests.waiting import until

SPEAKER = [sys.executable, str(Path(__file__).resolve().parent / "speaker.py")]
ALL_TYPES = ["artifact", "patch", "note", "noop", "submit", "dispatch_next", "memory"]
MEMORY = """
[memory]
path = "memory/facts.json"
branch = "facts"
[memory.schema]
type = "object"
properties = { facts = { type = "array", items = { type = "string" } } }
"""
CONFIG = (
    "[work_queue]\nretry = {max_attempts = 3, backoff_seconds = 1}\n"
    "[work_queue.accounting_weights]\nk = 1\n"
)
Steps = list[list[str]]
ARTIFACT = {"artifact": {"min": 1, "max": 2}}
# n3 and n5 are of the key k. Of equal weights and equal passes the empty key is first.
ORDER = ("n1", "n3", "n2", "n5", "n4", "n6")
ALONE: Steps = [["write", "one.txt", "1"], ["artifact", "one.txt"], ["finish", "completed"]]
FORGED = (
    '{"kind":"finish","intent_id":"x1","outcome":"completed"}',
    '{"kind":"finish","intent_id":"x2","outcome":"completed","claim_handle":null}',
    '{"kind":"noop","intent_id":"x3","reason":"r","claim_handle":"h9"}',
    "{",
)


def speaking_world(root: Path, *, max_claims: int = 1) -> World:
    """A board whose worker `default` takes so many tasks in a run, and `single` one."""
    wide = recipe(SPEAKER, max_claims=max_claims, share_keys=True, outputs=ALL_TYPES) + MEMORY
    single = recipe(SPEAKER, outputs=ALL_TYPES) + MEMORY
    return make_world(root, recipes={"default": wide, "single": single}, config=CONFIG)


class Batch:
    """A board with such workers; `told` has what each command of a run answered."""

    def __init__(self, root: Path, *, max_claims: int = 1) -> None:
        self.world = speaking_world(root, max_claims=max_claims)

    def node(self, key: str, script: Steps | None = None, **fields: Any) -> dict[str, Any]:
        """A node whose run, if it is the first of it, takes these steps."""
        payload = {"told": str(self.world.file("told")), "script": script or []}
        return {"key": key, "payload": payload, **fields}

    def dispatch(self, claims: int, *, fault: Mapping[str, str] | None = None) -> None:
        """Grant and launch one batch by the command line; its processes meet that fault."""
        outer = {}
        if fault is not None:
            outer = {"FAULT": fault_text(fault), "PYTHONPATH": str(HERE / "faults")}
        words = ["dispatch", "--max-claims", str(claims)]
        Command(self.world, *words, environment=outer).end(0)

    def run(self) -> None:
        """Run the board until it is idle."""
        Command(self.world, "run", "--until-idle", "--workers", "1").end(0)

    def settle(self) -> None:
        """Wait until no run of the board is open, and no delivery pends."""
        until(lambda: not self.world.history().projection.open_dispatches, timeout_s=60)
        until(lambda: not self.world.supervisors(), timeout_s=60)

    @property
    def told(self) -> list[dict[str, Any]]:
        """What the runs said of themselves and of each command, in order."""
        path = self.world.file("told")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def answers(self, *words: str) -> list[tuple[int, str | None]]:
        """How every call with exactly these words ended: exit status and code."""
        return [
            (one["status"], one["code"]) for one in self.told if one.get("words") == list(words)
        ]

    def report(self, number: int = 0) -> Any:
        """What the trusted side reported of a run."""
        run_id = self.world.rows()[number].run_id
        return json.loads(RunFolder.of(self.world.folders.state, run_id).report.read_text())

    def count(self, kind: type[ops.Operation], key: str) -> int:
        """How many records of a kind the node of that key has."""
        work_id = self.world.works()[key].work.work_id
        return sum(
            isinstance(one, kind) and getattr(one, "work_id", None) == work_id
            for one in self.world.operations()
        )

    def artifacts(self) -> dict[str, list[str]]:
        """The names of the artifacts that Git has, by the node whose Result lists them."""
        found: dict[str, list[str]] = {}
        for key, state in self.world.works().items():
            for output in (state.result or {}).get("outputs", []):
                if output["type"] == "artifact":
                    found.setdefault(key, []).append(output["name"])
        return found

    def artifact_refs(self) -> list[str]:
        """Every artifact ref of the repository."""
        done = subprocess.run(
            ["git", "for-each-ref", "--format=%(refname)", "refs/callboard/artifacts"],
            cwd=self.world.path, env=os.environ, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.split()

    def call(self, *words: str) -> Any:
        """The document of a command with `--json`."""
        return json.loads(Command(self.world, *words, "--json").end(0))

    def claim(self, handle: str) -> Any:
        """What the report of the first run says of one Claim."""
        return next(one for one in self.report()["claims"] if one["claim_handle"] == handle)


def script(batch: Batch) -> Steps:
    """Done, given up, forgotten, done, promised and not delivered, and taken away meanwhile."""
    begun, go = str(batch.world.file("begun")), str(batch.world.file("go"))
    return [
        ["write", "one.txt", "1"],
        ["artifact", "one.txt"],
        ["finish", "completed"],
        *(["artifact", "one.txt", "--name", key, "--claim", key] for key in ("h1", "h2", "h3")),
        ["artifact", "one.txt", "--name", "h4", "--claim", "h4"],
        ["artifact", "one.txt", "--name", "h6", "--claim", "h6"],
        ["finish", "completed", "--claim", "h1"],
        ["finish", "completed", "--claim", "h1"],
        ["finish", "cancelled", "--claim", "h1"],
        ["finish", "cancelled", "--claim", "h2"],
        ["finish", "completed", "--claim", "h4"],
        ["finish", "completed", "--claim", "h5"],
        ["finish", "completed", "--claim", "h6"],
        # All but the third have been spoken for, and still nobody guesses that it is meant.
        ["finish", "completed"],
        ["note", "about whom"],
        *(["finish", "completed", "--claim", name] for name in ("h7", "", "H3", "c1", "h3 ")),
        *(["forge", f"message-00009{n}.json", text] for n, text in enumerate(FORGED)),
        ["say", begun],
        ["await", go],
    ]  # fmt: skip


def play_six(root: Path) -> Batch:
    """A run for six tasks of two keys; the last of them is taken away while it works."""
    made = Batch(root, max_claims=6)
    made.world.submit(
        made.node("n1", script(made), contract=ARTIFACT),
        made.node("n2", contract=ARTIFACT),
        made.node("n3", contract=ARTIFACT, fairness_key="k"),
        made.node("n4", contract=ARTIFACT),
        made.node("n5", contract=ARTIFACT, fairness_key="k"),
        made.node("n6", contract=ARTIFACT),
    )
    try:
        made.dispatch(6)
        made.world.wait_for(made.world.file("begun"))
        with made.world.open() as board:
            board.cancel([made.world.works()["n6"].work.work_id], reason="not_needed")
        made.world.file("go").touch()
        made.settle()
    except BaseException:
        made.world.end()
        raise
    return made
