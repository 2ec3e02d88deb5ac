"""The worker of the system tests: does what its payload says, and keeps a journal of itself.

Run by a recipe, inside a private clone. The payload's `journal` names a file outside, to which
each execution appends who it is; `script` lists steps, `first` steps for the first attempt only.
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

from callboard.board.outputs.staging import Stager, read_assignment
from callboard.board.protocol.commit import AssignedClaim
from callboard.processes.identity import ProcessIdentity, current, look, state

_STEP_S = 0.01
_STEPS = 12_000


class Journal:
    """Lines of JSON in one file, each appended in one write."""

    def __init__(self, path: str) -> None:
        self._path = path

    def lines(self) -> list[dict[str, Any]]:
        """What was written so far."""
        try:
            return [json.loads(line) for line in Path(self._path).read_text().splitlines()]
        except FileNotFoundError:
            return []

    def append(self, entry: dict[str, Any]) -> None:
        """Add a line."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab", buffering=0) as stream:
            stream.write(json.dumps(entry).encode() + b"\n")

    def begin(self, member: AssignedClaim) -> bool:
        """Note this execution; True where it is the first of its Work."""
        others = [line for line in self.lines() if line["work_id"] == member.work_id]
        living = [
            line["process"]
            for line in others
            if state(ProcessIdentity.from_document(line["process"])) == "alive"
        ]
        self.append(
            {
                "work_id": member.work_id,
                "claim_id": member.claim_id,
                "process": current().document(),
                "living": living,
                "supervisor": os.getppid(),
                "payload_sha256": hashlib.sha256(
                    json.dumps(dict(member.work), sort_keys=True).encode()
                ).hexdigest(),
                "result_refs": len(member.result_refs),
            }
        )
        return not others


class Worker:
    """One Claim of this run at work."""

    def __init__(self, stager: Stager, member: AssignedClaim, *, alone: bool) -> None:
        self._stager = stager
        self._member = member
        self._alone = alone
        self._payload = dict(member.work)

    def run(self) -> None:
        """Take the steps of the script."""
        payload: dict[str, Any] = self._payload
        first = Journal(payload["journal"]).begin(self._member)
        default = ["deliver", "completed"]
        steps = payload.get("first", default) if first else payload.get("script", default)
        for step in steps:
            name, _, argument = step.partition(" ")
            getattr(self, f"do_{name}")(argument)

    def do_deliver(self, _argument: str) -> None:
        """Change a file, and stage what the contract asks for."""
        output = Path("out.txt" if self._alone else f"out-{self._member.handle}.txt")
        output.write_text(self._member.work_id + "\n")
        contract = json.dumps(self._payload["effect_contract"])
        if "artifact" in contract:
            self._stager.artifact(output, "out", self._member.handle)
        if "patch" in contract:
            # A work tree that is shared is told apart by paths.
            paths = () if self._alone else (output.name,)
            self._stager.patch(self._member.handle, paths=paths)

    def do_completed(self, _argument: str) -> None:
        """Stage the finish."""
        self._stager.finish("completed", self._member.handle)

    def do_cancelled(self, _argument: str) -> None:
        """Give the Claim up."""
        self._stager.finish("cancelled", self._member.handle)

    def do_note(self, text: str) -> None:
        """Comment on the node."""
        self._stager.note(text, self._member.handle)

    def do_remember(self, document: str) -> None:
        """Stage a memory."""
        self._stager.memory(document.encode(), self._member.handle)

    def do_own(self, argument: str) -> None:
        """Stage an output of a project's own type: its name, then its body."""
        name, _, document = argument.partition(" ")
        self._stager.own(name, document.encode(), self._member.handle)

    def do_submit(self, plan: str) -> None:
        """Stage a plan, whose nodes keep the journal, too."""
        document = json.loads(plan)
        for node in document["nodes"]:
            node["payload"] = {"journal": self._payload["journal"], **node.get("payload", {})}
        self._stager.submit(json.dumps(document).encode(), self._member.handle)

    def do_next(self, claims: str) -> None:
        """Stage the wish for the next batch, in as many runs as it may have turns."""
        self._stager.dispatch_next(int(claims), int(claims), selector=self._member.handle)

    def do_noop(self, reason: str) -> None:
        """Say that there was nothing to do."""
        self._stager.noop(reason, self._member.handle)

    def do_write(self, name: str) -> None:
        """Leave a file in the work tree."""
        Path(name).write_text("left\n")

    def do_plant(self, argument: str) -> None:
        """Leave a file with a text, wherever it may lie."""
        name, _, text = argument.partition(" ")
        Path(name).write_text(text)

    def do_mkdir(self, name: str) -> None:
        """Leave a folder, where a file may be meant to be."""
        Path(name).mkdir()

    def do_commit(self, message: str) -> None:
        """Commit everything in the private clone."""
        subprocess.run(["git", "add", "-A"], check=True)
        subprocess.run(["git", "commit", "-q", "-m", message], check=True)

    def do_exit(self, status: str) -> None:
        """End with that status."""
        raise SystemExit(int(status))

    def do_grandchild(self, _argument: str) -> None:
        """Start a process in this group that will not end by itself."""
        subprocess.Popen(["sleep", "600"])

    def do_stray(self, _argument: str) -> None:
        """Start one in a session of its own."""
        subprocess.Popen(["sleep", "600"], start_new_session=True)

    def do_say(self, path: str) -> None:
        """Make a file that says: so far so good."""
        Path(path).touch()

    def do_await(self, path: str) -> None:
        """Wait until there is a file."""
        pause = threading.Event()
        for _step in range(_STEPS):
            if os.path.exists(path):
                return
            pause.wait(_STEP_S)

    def do_kill(self, whom: str) -> None:
        """See `kill`."""
        kill(whom)


def kill(whom: str) -> None:
    """Kill the supervisor, its dispatcher before it (`both`), or this process (`worker`)."""
    supervisor = os.getppid()
    if whom == "both":
        facts = look(supervisor)
        assert facts is not None
        assert b"dispatching.py" in Path(f"/proc/{facts.parent}/cmdline").read_bytes()
        os.kill(facts.parent, signal.SIGKILL)
    if whom in ("both", "supervisor"):
        os.kill(supervisor, signal.SIGKILL)
        threading.Event().wait(_STEP_S * _STEPS)
    os.kill(os.getpid(), signal.SIGKILL)


def set_up(mark: str, whom: str) -> None:
    """The set-up command of the recipe `prepared`: kills once, and succeeds afterwards."""
    try:
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    kill(whom)


def main() -> None:
    """Work on every Claim of the assignment in turn."""
    if len(sys.argv) == 3:
        set_up(sys.argv[1], sys.argv[2])
        return
    assignment = read_assignment(Path(os.environ["CALLBOARD_ASSIGNMENT"]))
    stager = Stager(Path(os.environ["CALLBOARD_STAGING"]), assignment)
    for member in assignment.claims:
        Worker(stager, member, alone=len(assignment.claims) == 1).run()


if __name__ == "__main__":
    main()
