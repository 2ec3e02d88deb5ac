"""One of many processes at one project, started as a program: does what comes into its head.

Arguments: the project's folder, a name, a seed, and for how many seconds. It says `ready`, waits
for a line, and prints at the end what it did as JSON: successes, and refusals by code. Anything
else than a refusal ends it with a trace.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from time import monotonic
from typing import Any

from callboard.errors import CallboardError
from callboard.project.project import Project


class Contender:
    """Starts sessions at all work, holds it, lets it go, and tells of it."""

    def __init__(self, project: Project, name: str, seed: int) -> None:
        self.project = project
        self.name = name
        self.chance = random.Random(seed)
        self.sessions: list[str] = []

    def step(self) -> Any:
        """One change."""
        if len(self.sessions) < 3:
            work = self.chance.choice("ABC")
            answer = self.project.sessions.start(work, self.name, claim=self.chance.random() < 0.5)
            self.sessions.append(answer.session.id)
            return answer
        session = self.chance.choice(self.sessions)
        act = self.chance.choice((self._hold, self._release, self._tell, self._stale, self._end))
        return act(session)

    def _hold(self, session: str) -> Any:
        return self.project.claims.acquire(session, ttl_ms=self.chance.choice((5, 50, 60_000)))

    def _release(self, session: str) -> Any:
        return self.project.claims.release(session)

    def _tell(self, session: str) -> Any:
        return self.project.events.append("note.taken", {"by": self.name}, session=session)

    def _stale(self, session: str) -> Any:
        seen = self.project.info().revision
        return self.project.sessions.checkpoint(session, "x", "y", expected_revision=seen)

    def _end(self, session: str) -> Any:
        self.sessions.remove(session)
        return self.project.sessions.end(session)


def main(root: str, name: str, seed: str, seconds: str) -> None:
    """Contend until the time is over."""
    with Project.open(root, busy_ms=60_000) as project:
        contender = Contender(project, name, int(seed))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        done = 0
        refused: Counter[str] = Counter()
        end = monotonic() + float(seconds)
        while monotonic() < end:
            try:
                contender.step()
            except CallboardError as error:
                refused[error.code] += 1
            else:
                done += 1
        sys.stdout.write(json.dumps({"done": done, "refused": dict(refused)}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
