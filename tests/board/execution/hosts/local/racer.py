"""One of several processes that race for the same rows of a run registry.

Started by tests with the registry's folder, a sender and the moves to make; it says when it is
ready, waits for its input to close, and prints what each of its calls answered.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from callboard.board.execution.hosts.local.registry import RunRegistry
from callboard.board.execution.hosts.local.registry_rows import WorkerRun
from callboard.errors import CallboardError
from callboard.processes.identity import current


def prepare(
    registry: RunRegistry, sender: str, dispatch_id: str = "d_1", run_id: str | None = None
) -> WorkerRun:
    """A prepared run of the dispatch."""
    return registry.prepare(
        repository="r",
        dispatch_id=dispatch_id,
        sender_run_id=sender,
        workflow=".callboard/workers/w.toml",
        ref="a" * 40,
        workspace=Path("/runs/1"),
        now_ms=10,
        run_id=run_id,
    )


def answer(registry: RunRegistry, move: list[str], sender: str) -> object:
    kind, dispatch_id, run_id = move
    try:
        if kind == "prepare":
            return prepare(registry, sender, dispatch_id, run_id).run_id
        if kind == "claim":
            return registry.claim_running(run_id, dispatch_id, current(), now_ms=2)
        if kind == "void":
            return registry.void("r", dispatch_id, sender, now_ms=3)
        return registry.finish(
            run_id, conclusion="success", exit_code=0, signal=None, survivors=[], now_ms=4
        )
    except CallboardError as error:
        return error.code


def main() -> None:
    """Make the moves and print the answers as one JSON list."""
    folder, sender, moves = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    registry = RunRegistry(folder)
    sys.stdout.write(json.dumps([answer(registry, move, sender) for move in moves]))


if __name__ == "__main__":
    main()
