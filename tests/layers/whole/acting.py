"""The processes of a whole run, each with a disk that counts its effects and may kill at one.

Arguments: `coordinator REPOSITORY`, `runner REPOSITORY PLACE`, or `agent ASSIGNMENT`. Every effect
of every process appends a line to the file in `EFFECTS`; the process whose line is number `KILL_AT`
kills itself right after the effect. Agents play all roles of the two sets in `played`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callboard.errors import CallboardError
from callboard.layers import assigned, running
from callboard.layers.around import Around, of_machine
from callboard.layers.disk import unobserved
from callboard.layers.layers import Layers

HERE = Path(__file__).resolve()


def counted(step: str, place: str) -> None:
    """Note one effect, and die if it was the one."""
    line = f"{os.getpid()} {sys.argv[1]} {step} {place}\n".encode()
    descriptor = os.open(os.environ["EFFECTS"], os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.lockf(descriptor, os.F_LOCK, 0)
        os.write(descriptor, line)
        number = os.pread(descriptor, 1 << 24, 0).count(b"\n")
    finally:
        os.close(descriptor)
    if number == int(os.environ.get("KILL_AT", "0")):
        os.kill(os.getpid(), signal.SIGKILL)


def around_of(repository: Path) -> Around:
    """The surroundings of one process: as everybody's, but for the disk and the runner."""
    return of_machine(
        repository,
        dict(os.environ),
        effect=counted if "EFFECTS" in os.environ else unobserved,
        runner=(sys.executable, str(HERE), "runner"),
    )


def coordinator(repository: str) -> int:
    """Run the tree to its end."""
    last = Layers(around_of(Path(repository))).run()
    sys.stdout.write(f"{last.did} {last.detail}\n")
    return 0


def agent(path: str) -> int:
    """Play the role of an assignment, once; a note of it is left before anything else."""
    own = json.loads(Path(path).read_bytes())
    identity, paths = own["identity"], own["paths"]
    note = f"{identity['session_id']}.{identity['attempt_id']}.{os.getpid()}"
    (Path(os.environ["EXECUTED"]) / note).touch()
    layers = Layers(around_of(assigned.repository_of(Path(path))))
    ROLES[identity["role"]](layers, Path(path), paths)
    return 0


# --- roles ----------------------------------------------------------------------------------------

LEDGER = """# What is to be done

## part: Write the file

```yaml
status: selected
scope:
  goal: Write part.txt
  completion_criteria: [part.txt says done]
  stop_criteria: []
  constraints: []
  deliverables: [part.txt]
  required_evidence: [eval receipt]
workflow_set: below
```
"""
CHECK = """kind: command
check_id: done
title: part.txt says done
command: [grep, -q, done, part.txt]
"""


def planner(layers: Layers, assignment: Path, paths: dict[str, Any]) -> None:
    """Select the one item; once its child is over, judge it, and then the goal."""
    ledger = Path(paths["project_state"]) / "work_items.md"
    if not ledger.exists():
        _put(ledger, LEDGER)
        return
    outcomes = sorted(Path(paths["child_outcomes"]).glob("[!.]*.json"))
    if not outcomes:
        return
    outcome = json.loads(outcomes[0].read_bytes())
    evidence = [one["ref"] for one in outcome["evidence"]]
    layers.accept(outcome["request_id"], "accepted", "It is done.", evidence, assignment=assignment)
    _finish(layers, assignment, paths)


def dispatcher(layers: Layers, assignment: Path, _paths: dict[str, Any]) -> None:
    """Dispatch the one item."""
    layers.dispatch(assignment, "part")


def worker(layers: Layers, assignment: Path, paths: dict[str, Any]) -> None:
    """Write the file, and say that the goal is met."""
    _put(Path(paths["repository"]) / "part.txt", "done\n")
    _finish(layers, assignment, paths)


def _finish(layers: Layers, assignment: Path, paths: dict[str, Any]) -> None:
    _put(Path(paths["eval_checks"]) / "done.yaml", CHECK)
    receipt = layers.evaluate(assignment)
    ref = f"session:/eval_receipts/{receipt.receipt_id}.json"
    layers.control(assignment, "goal_met", eval_receipt_ref=ref, summary="part.txt is there")


def _put(path: Path, text: str) -> None:
    """As an agent should write: a sibling that no reader takes for the file, then a rename."""
    sibling = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    sibling.write_text(text)
    sibling.rename(path)


ROLES: dict[str, Callable[[Layers, Path, dict[str, Any]], None]] = {
    "planner": planner,
    "dispatcher": dispatcher,
    "worker": worker,
}


def main() -> int:
    """Be what the first argument says."""
    if sys.argv[1] == "runner":
        return running.main(sys.argv[2:], around_of(Path(sys.argv[2])))
    try:
        return {"coordinator": coordinator, "agent": agent}[sys.argv[1]](sys.argv[2])
    except CallboardError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
