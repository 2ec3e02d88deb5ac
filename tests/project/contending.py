"""One of many processes at one project, started as a program: does what comes into its head.

Arguments: the project's folder, a name and a seed. It says `ready`, waits for a line, goes on until
there is another one, and prints at the end as JSON what it was answered: each change with its
revision and what it made, and refusals by code. Anything else than a refusal ends it with a trace.
"""

from __future__ import annotations

import json
import os
import random
import select
import sys
from collections import Counter
from typing import Any

import msgspec

from callboard.errors import CallboardError
from callboard.project.project import Project

NICENESS = 15
"""Sixteen of them take all there is; whoever else runs on the machine comes first."""


class Contender:
    """Starts sessions at all work, holds it, lets it go, and tells of it."""

    def __init__(self, project: Project, name: str, seed: int) -> None:
        self.project = project
        self.name = name
        self.chance = random.Random(seed)
        self.sessions: list[str] = []
        self.notes = 0

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
        body = {"by": self.name, "n": self.notes}
        answer = self.project.events.append("note.taken", body, session=session)
        self.notes += 1
        return answer

    def _stale(self, session: str) -> Any:
        seen = self.project.info().revision
        return self.project.sessions.checkpoint(session, "x", "y", expected_revision=seen)

    def _end(self, session: str) -> Any:
        self.sessions.remove(session)
        return self.project.sessions.end(session)


def told(answer: Any) -> list[Any]:
    """The revision of an answer, its events, and the work and fence that it acquired."""
    document = msgspec.to_builtins(answer)
    events = document.get("events") or [document["event"]]
    acquired = [
        (one["work"], one["body"]["fence"]) for one in events if one["type"] == "claim.acquired"
    ]
    ids = [(one["seq"], one["id"], one["type"]) for one in events]
    return [document["project_revision"], ids, acquired]


def main(root: str, name: str, seed: str) -> None:
    """Contend until it is said that it is enough."""
    os.nice(NICENESS)
    with Project.open(root, busy_ms=120_000) as project:
        contender = Contender(project, name, int(seed))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        done: list[Any] = []
        refused: Counter[str] = Counter()
        while not select.select([sys.stdin], [], [], 0)[0]:
            try:
                answer = contender.step()
            except CallboardError as error:
                refused[error.code] += 1
            else:
                done.append(told(answer))
        said = {"done": done, "refused": dict(refused), "notes": contender.notes}
        sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
