"""Stopping what a killed supervisor left behind, from a record of its worker's leader alone.

Only processes proven to be of that run are signalled: what carries the run's mark, the recorded
leader, its group and its session while they cannot have been given to others. The rest is named,
never touched.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from threading import Event

from callboard.errors import CallboardError
from callboard.processes import members
from callboard.processes.identity import (
    ProcessFacts,
    ProcessIdentity,
    current,
    look,
    state,
    why_unknown,
)
from callboard.processes.members import Survivor

_LOOK_EVERY_S = 0.02
_KILL_WAIT_S = 5.0


def stop_orphans(
    run_id: str,
    worker: ProcessIdentity | None,
    grace_s: float,
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> tuple[Survivor, ...]:
    """TERM, `grace_s` seconds, KILL for what remains of a run; returns what still runs then.

    `worker` is the recorded leader, None where none was recorded. Raises `CallboardError`
    `process_unknown` where the record is of another host, pid namespace or boot, unless this
    machine was started anew since and nothing with the run's mark lives: nothing is signalled.
    """
    if worker is not None and state(worker) == "unknown":
        raise _unknown(run_id, worker, why_unknown(worker))
    if worker is not None and worker.boot_id != current().boot_id:
        living = members.survivors(members.marked(run_id, members.everyone()))
        if living:
            found = f"its machine was started anew since, and yet process {living[0].pid} is of it"
            raise _unknown(run_id, worker, found)
        return ()
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILL_WAIT_S)):
        if not _stop(run_id, worker, number, monotonic, wait_s):
            break
    return _survivors(run_id, worker)


def _unknown(run_id: str, worker: ProcessIdentity, why: str) -> CallboardError:
    return CallboardError(
        "process_unknown",
        f"run {run_id} cannot be stopped from here: {why}",
        "stop it on the host and in the namespace it was started in",
        {"run_id": run_id, "worker": worker.document()},
    )


def _stop(
    run_id: str,
    worker: ProcessIdentity | None,
    number: signal.Signals,
    monotonic: Callable[[], float],
    wait_s: float,
) -> list[ProcessFacts]:
    """Signal all that is proven ours and wait for its end; what is left after `wait_s`."""
    pause = Event()
    deadline = monotonic() + wait_s
    signalled: set[tuple[int, int]] = set()
    while left := _ours(run_id, worker):
        for facts in left:
            # KILL goes out again and again: a group that forks has new members every time.
            if number == signal.SIGKILL or facts.key not in signalled:
                members.send(facts, number)
                signalled.add(facts.key)
        if monotonic() >= deadline:
            break
        pause.wait(_LOOK_EVERY_S)
    return left


def _ours(run_id: str, worker: ProcessIdentity | None) -> list[ProcessFacts]:
    """The living that are proven to be of the run."""
    processes = members.everyone()
    marked = members.marked(run_id, processes)
    found = [] if worker is None else _of_group(worker, processes, {one.pid for one in marked})
    return list({facts.key: facts for facts in (*marked, *found)}.values())


def _of_group(
    worker: ProcessIdentity, processes: list[ProcessFacts], marked: set[int]
) -> list[ProcessFacts]:
    """The living members of the recorded group or session, as far as they are proven ours."""
    gathered = _gathered(worker, processes)
    holder = look(worker.pid)
    if holder is not None:
        # The number is in use. By the recorded leader, even ended: then group and session are
        # its own. By a later process: then nothing of the recorded group can be left, since the
        # system gives no number away that a group or session still bears.
        return gathered if holder.started == worker.started else []
    if any(facts.pid in marked and facts.session == worker.pid for facts in gathered):
        # A session with one marked member is the run's own, so its unmarked ones are too.
        return [facts for facts in gathered if facts.session == worker.pid]
    return []


def _survivors(run_id: str, worker: ProcessIdentity | None) -> tuple[Survivor, ...]:
    found = _ours(run_id, worker)
    if worker is not None:
        found += _ambiguous(worker)
    return members.survivors(found)


def _ambiguous(worker: ProcessIdentity) -> list[ProcessFacts]:
    """Members of a group of that number whose leader is gone: perhaps ours, so they are named."""
    if look(worker.pid) is not None:
        return []
    return _gathered(worker, members.everyone())


def _gathered(worker: ProcessIdentity, processes: list[ProcessFacts]) -> list[ProcessFacts]:
    """The living in the group or session of the leader's number, without this process."""
    found = members.living(members.gathered(worker.pid, processes))
    return [facts for facts in found if facts.pid != os.getpid()]
