"""The worker of the soak: notes that it began, then does well or fails in the way it was told.

Run by a recipe, with the file of the journal as its argument. The journal is written and synced
before anything else, one line for each Claim, so that an execution that is not in it has done
nothing. It imports nothing of Callboard and stages by the files that stand for the commands: a run
must cost little, as there are thousands.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

# Longer than any recipe of the soak lets a run take.
FOREVER_S = 600.0
_START_FIELD = 19


def started(pid: int) -> int | None:
    """When a process began, in ticks; None where it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZXx" else int(fields[_START_FIELD])


def begin(journal: str, assignment: dict[str, Any]) -> list[int]:
    """Note one execution of every Claim, synced; answers which execution of its Work each is."""
    try:
        before = Path(journal).read_text().splitlines()
    except FileNotFoundError:
        before = []
    lines, numbers = [], []
    for member in assignment["claims"]:
        others = [json.loads(one) for one in before if member["work_id"] in one]
        numbers.append(len(others) + 1)
        entry = {
            "work_id": member["work_id"],
            "claim_id": member["claim_id"],
            "dispatch_id": assignment["dispatch_id"],
            "execution": len(others) + 1,
            "pid": os.getpid(),
            "started": started(os.getpid()),
            "living": [one["pid"] for one in others if started(one["pid"]) == one["started"]],
            "run_id": os.environ["CALLBOARD_RUN_ID"],
        }
        lines.append(json.dumps(entry) + "\n")
    descriptor = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, "".join(lines).encode())
    os.fsync(descriptor)
    os.close(descriptor)
    return numbers


class Staging:
    """The staging folder, written as the documented files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._messages = 0

    def put(self, kind: str, handle: str, **body: Any) -> None:
        """One message, whole or not at all."""
        self._messages += 1
        value = {
            "kind": kind, "intent_id": f"i_{self._messages}", "claim_handle": handle, **body
        }  # fmt: skip
        self._publish(f"message-{self._messages:06}.json", json.dumps(value).encode())

    def artifact(self, handle: str, data: bytes, *, forged: bool = False) -> None:
        """Some bytes under the name `out`; `forged`: under the digest of others."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._publish(f"blob-{sha256}", data + b"more" if forged else data)
        self.put("artifact", handle, name="out", sha256=sha256, size_bytes=len(data))

    def _publish(self, name: str, data: bytes) -> None:
        partial = self._folder / f".{name}.tmp"
        partial.write_bytes(data)
        partial.rename(self._folder / name)


class Task:
    """One Claim at work."""

    def __init__(self, staging: Staging, member: dict[str, Any]) -> None:
        self._staging = staging
        self._handle = str(member["handle"])
        self._work_id = str(member["work_id"])
        self._contract = json.dumps(member["work"].get("effect_contract", {}))

    def act(self, name: str) -> None:
        """Do as the plan says for this execution."""
        getattr(self, f"do_{name}")()

    def do_well(self) -> None:
        """Deliver what the contract asks for, and finish."""
        self._deliver()
        self._finish()

    def do_slow(self) -> None:
        """As `well`, with time to be hit."""
        self._deliver()
        threading.Event().wait(0.3 + int(self._work_id[-2:], 16) / 100)
        self._finish()

    def do_fail(self) -> None:
        """End with 1."""
        raise SystemExit(1)

    def do_crash(self) -> None:
        """End by a signal."""
        os.kill(os.getpid(), signal.SIGSEGV)

    def do_forget(self) -> None:
        """Deliver, and never say that it is finished."""
        self._deliver()

    def do_give_up(self) -> None:
        """Say that it cannot be done."""
        self._finish("cancelled")

    def do_empty_handed(self) -> None:
        """Finish without what the contract asks for."""
        self._finish()

    def do_forge(self) -> None:
        """Deliver bytes that are not those of their digest."""
        self._staging.artifact(self._handle, self._work_id.encode(), forged=True)
        self._finish()

    def do_finish_and_crash(self) -> None:
        """Finish, and end badly; the finish counts."""
        self.do_well()
        os.kill(os.getpid(), signal.SIGKILL)

    def do_litter(self) -> None:
        """As `well`, and leave a process behind that would not end by itself."""
        subprocess.Popen(["sleep", str(FOREVER_S)])
        self.do_well()

    def do_hang(self) -> None:
        """Go on until the recipe's time is over."""
        threading.Event().wait(FOREVER_S)

    def do_hang_on(self) -> None:
        """The same, and do not listen."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.do_hang()

    def _deliver(self) -> None:
        if '"patch"' in self._contract:
            Path(f"{self._work_id[-12:]}.txt").write_text(self._work_id)
            self._staging.put("patch", self._handle)
        if '"artifact"' in self._contract:
            self._staging.artifact(self._handle, self._work_id.encode())

    def _finish(self, outcome: str = "completed") -> None:
        self._staging.put("finish", self._handle, outcome=outcome)


def main() -> None:
    """Note the executions, then act for every Claim of the assignment in turn."""
    assignment = json.loads(Path(os.environ["CALLBOARD_ASSIGNMENT"]).read_text())
    numbers = begin(sys.argv[1], assignment)
    staging = Staging(Path(os.environ["CALLBOARD_STAGING"]))
    for number, member in zip(numbers, assignment["claims"], strict=True):
        acts = member["work"]["acts"]
        Task(staging, member).act(acts[min(number, len(acts)) - 1])


if __name__ == "__main__":
    main()
