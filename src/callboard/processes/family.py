"""What one running command has around its leader, while this process is the leader's parent.

The leader is our child and must not be reaped while a `Family` is in use: that keeps its number,
its group and its session from being given to anybody else.
"""

from __future__ import annotations

import contextlib
import os
import signal

from callboard.processes import members
from callboard.processes.adoption import adopts
from callboard.processes.identity import ProcessFacts
from callboard.processes.members import Survivor


class Family:
    """The processes of the run `run_id` whose leader is `leader_pid`.

    `before` holds what `present_now` said before the leader was started.
    """

    def __init__(self, leader_pid: int, run_id: str, before: frozenset[tuple[int, int]]) -> None:
        self._leader_pid = leader_pid
        self._run_id = run_id
        self._before = before

    def tree(self) -> list[ProcessFacts]:
        """What descends from the leader while it lives, wherever it has moved to."""
        return members.descendants(self._leader_pid, members.everyone())

    def left(self, tree: list[ProcessFacts]) -> list[ProcessFacts]:
        """The living of the group, of the session and of `tree`, the leader included.

        Those of group and session that ended as our children are reaped on the way.
        """
        processes = members.everyone()
        gathered = members.gathered(self._leader_pid, processes)
        self._reap(gathered)
        keys = {facts.key for facts in (*gathered, *tree)}
        return members.living(facts for facts in processes if facts.key in keys)

    def send(self, processes: list[ProcessFacts], number: signal.Signals) -> None:
        """Signal the group at once, so that nothing can fork away, then the others one by one."""
        self.send_to_group(number)
        for facts in processes:
            if facts.group != self._leader_pid:
                members.send(facts, number)

    def send_to_group(self, number: signal.Signals) -> None:
        """Signal the leader's group; nothing happens where all of it has ended."""
        # PermissionError: every member has become another user's, and will be named instead.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._leader_pid, number)

    def survivors(self) -> tuple[Survivor, ...]:
        """What still runs of this run, named; see `rest`."""
        return members.survivors(self.rest())

    def rest(self) -> list[ProcessFacts]:
        """All that still runs of this run, wherever it has moved to.

        That is the group and the session, all that carries the run's mark, and, where this
        process adopts orphans, every descendant that was not there before.
        """
        processes = members.everyone()
        found = members.gathered(self._leader_pid, processes)
        found += members.marked(self._run_id, processes)
        if adopts():
            ours = members.descendants(os.getpid(), processes)
            new = [facts for facts in ours if facts.key not in self._before]
            self._reap(new)
            found += new
        return members.living(found)

    def _reap(self, processes: list[ProcessFacts]) -> None:
        for facts in processes:
            ours = facts.parent == os.getpid() and facts.pid != self._leader_pid
            if facts.ended and ours:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(facts.pid, os.WNOHANG)


def present_now() -> frozenset[tuple[int, int]]:
    """The processes below this one at this moment, each as (pid, start)."""
    return frozenset(facts.key for facts in members.descendants(os.getpid(), members.everyone()))
