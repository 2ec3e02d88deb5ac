"""The processes that belong to a run: its group and session, those that carry its mark, its tree.

Finds and names them, and sends signals to processes whose identity it has verified, never to a
bare number. It must not decide when a run ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from callboard.processes.identity import ProcessFacts, look

RUN_MARK = "CALLBOARD_RUN_ID"
"""The variable every process of a run carries."""

_COMMAND_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Survivor:
    """A process that outlived its run: pid, start (as `ProcessFacts.started`), command line.

    The command line is cut at 200 characters and holds nothing of the environment.
    """

    pid: int
    started: int
    command: str

    def document(self) -> dict[str, object]:
        """The JSON form."""
        return {"pid": self.pid, "started": self.started, "command": self.command}


def everyone() -> list[ProcessFacts]:
    """All processes that can be seen, ended ones included."""
    return [facts for pid in psutil.pids() if (facts := look(pid)) is not None]


def gathered(leader_pid: int, processes: Iterable[ProcessFacts]) -> list[ProcessFacts]:
    """Those in the group or the session of `leader_pid`, the leader included."""
    return [facts for facts in processes if leader_pid in (facts.group, facts.session)]


def living(processes: Iterable[ProcessFacts]) -> list[ProcessFacts]:
    """Those that have not ended."""
    return [facts for facts in processes if not facts.ended]


def descendants(pid: int, processes: Iterable[ProcessFacts]) -> list[ProcessFacts]:
    """All that descend from `pid` by their parents of this moment, `pid` itself left out."""
    children: dict[int, list[ProcessFacts]] = {}
    for facts in processes:
        children.setdefault(facts.parent, []).append(facts)
    found: list[ProcessFacts] = []
    waiting = [pid]
    while waiting:
        for child in children.pop(waiting.pop(), []):
            found.append(child)
            waiting.append(child.pid)
    return found


def marked(run_id: str, processes: Iterable[ProcessFacts]) -> list[ProcessFacts]:
    """The living ones that carry the mark of `run_id`, without this process and its ancestors."""
    known = list(processes)
    parents = {facts.pid: facts.parent for facts in known}
    own = {os.getpid()}
    step = os.getpid()
    while (step := parents.get(step, 0)) > 0 and step not in own:
        own.add(step)
    return [
        facts
        for facts in known
        if not facts.ended and facts.pid not in own and _carries(facts, run_id)
    ]


def _carries(facts: ProcessFacts, run_id: str) -> bool:
    try:
        environment = psutil.Process(facts.pid).environ()
    except (psutil.Error, OSError):
        return False
    return environment.get(RUN_MARK) == run_id and _still(facts)


def _still(facts: ProcessFacts) -> bool:
    now = look(facts.pid)
    return now is not None and now.started == facts.started


def words_of(facts: ProcessFacts) -> list[str]:
    """The command line of what has that number now; empty where it cannot be known."""
    with contextlib.suppress(psutil.Error, OSError):
        return psutil.Process(facts.pid).cmdline()
    return []


def named(facts: ProcessFacts) -> Survivor:
    """`facts` as the record of a survivor."""
    command = ""
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(facts.pid)
        command = " ".join(process.cmdline()) or process.name()
    # What a process says of itself goes into records and onto terminals.
    shown = command.encode("utf-8", "backslashreplace").decode("utf-8")
    printable = "".join(sign if sign.isprintable() else "\ufffd" for sign in shown)
    return Survivor(facts.pid, facts.started, printable[:_COMMAND_CHARACTERS])


def survivors(processes: Iterable[ProcessFacts]) -> tuple[Survivor, ...]:
    """The living of `processes`, each once, by their numbers."""
    distinct = {facts.key: facts for facts in living(processes)}
    return tuple(named(facts) for _, facts in sorted(distinct.items()))


def send(facts: ProcessFacts, number: signal.Signals) -> bool:
    """Send a signal to exactly this process; False where it has ended or may not be signalled."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return _send_by_number(facts, number)
    try:
        descriptor = os.pidfd_open(facts.pid)
    except OSError:
        # Either the process is gone or the kernel is too old to hold on to one.
        return _send_by_number(facts, number)
    try:
        # From here on the descriptor cannot come to mean another process.
        if not _still(facts):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True


def _send_by_number(facts: ProcessFacts, number: signal.Signals) -> bool:
    if not _still(facts):
        return False
    try:
        os.kill(facts.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
