"""The soak: a board at work while its processes are killed and stopped at random, and its rest.

    SOAK_SECONDS=1800 SOAK_TASKS=2000 SOAK_SEED=1 python -m tests.system.soak

Three dispatchers with two workers each, a reconciler and a submitter work through waves of small
tasks that fail at random. Every few seconds one process of this world is killed, or stopped and let
go on. Then the hits end, and what an operator does must bring the board to rest: `callboard run
--until-idle`, and `callboard cancel` for what waits for work that has failed for good. The laws of
`soak_laws.py` are checked, and the last line is a JSON summary. The folder is kept where one fails.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from callboard.board.board import Board
from tests.ambient import scrub
from tests.system import soak_laws
from tests.system.soak_plans import CONFIG, DISPATCHERS, WORKERS, recipes, waves
from tests.system.soak_torment import COMPACTOR, DISPATCHER, HIT, SUBMITTER, Cast, Tormentor
from tests.system.world import make_world

# The last wave is posted when this part of the time is over.
_POSTING = 0.8
_STEP_S = 0.1
_PROGRESS_S = 20.0
_ROUNDS = 20
# A process may end with this though nobody hit it: its turn at the board, or at the registry, did
# not come because whoever had it stood still. The next one goes on.
_GAVE_UP = 4


@dataclass(frozen=True, slots=True)
class Measure:
    """How long the hits last, how many tasks there are, and where chance begins."""

    seconds: float
    tasks: int
    seed: int

    @classmethod
    def asked(cls, environment: Mapping[str, str]) -> Measure:
        """The whole length, unless SOAK_SECONDS, SOAK_TASKS and SOAK_SEED say otherwise."""
        return cls(
            float(environment.get("SOAK_SECONDS", "1800")),
            int(environment.get("SOAK_TASKS", "2000")),
            int(environment.get("SOAK_SEED", "1")),
        )


@dataclass(slots=True)
class Posting:
    """The submitter: one wave after the other, each under one request id until it is answered."""

    cast: Cast
    plans: list[dict[str, Any]]
    chance: random.Random
    answered: dict[str, str] = field(default_factory=dict)
    repeated: int = 0
    turned_away: int = 0
    _at: int = 0
    _until_s: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether every wave has its answer."""
        return self._at == len(self.plans)

    def step(self, share: float, *, torment: bool) -> None:
        """Go on with the waves that are due once `share` of the time is over."""
        process = self.cast.living.get(self._name)
        if process is not None:
            if torment and process.poll() is None and time.monotonic() >= self._until_s:
                process.kill()
            if process.poll() is not None:
                self._ended(process, torment)
        elif not self.is_over and share >= _POSTING * self._at / len(self.plans):
            self._post(torment)

    @property
    def _name(self) -> str:
        return f"{SUBMITTER}-0"

    @property
    def _request_id(self) -> str:
        return f"soak-wave-{self._at}"

    def _post(self, torment: bool) -> None:
        path = self.cast.world.file(f"wave-{self._at}.json")
        path.write_text(json.dumps(self.plans[self._at]))
        self.cast.start(
            self._name,
            self.cast.command("submit", str(path), "--request-id", self._request_id, "--json"),
        )
        killed_soon = torment and self.chance.random() < 0.4
        pause_s = self.chance.uniform(0.2, 3.0) if killed_soon else 3600.0
        self._until_s = time.monotonic() + pause_s

    def _ended(self, process: subprocess.Popen[bytes], torment: bool) -> None:
        """Where it was answered go on, but now and then ask once more, as after a lost answer."""
        del self.cast.living[self._name]
        if process.returncode == 1 and '"code":"ledger_limit"' in self.cast.words(SUBMITTER, "out"):
            # What is open has to be closed first, and room is kept for that: asked again later.
            self.cast.forget(process)
            self.turned_away += 1
            return
        self.cast.note(self._name, process)
        if process.returncode != 0:
            self.repeated += 1
            return
        commit_id = json.loads(self.cast.words(SUBMITTER, "out"))["commit_id"]
        known = self.answered.setdefault(self._request_id, commit_id)
        assert known == commit_id, (self._request_id, known, commit_id)
        if torment and self.chance.random() < 0.2:
            self.repeated += 1
            return
        self._at += 1


class Soak:
    """One soak in a folder of its own."""

    def __init__(self, root: Path, measure: Measure) -> None:
        self._measure = measure
        self.world = make_world(root, recipes=recipes(root / "journal"), config=CONFIG)
        self._cast = Cast(self.world)
        self._tormentor = Tormentor(self._cast, measure.seed, long_stops=measure.seconds >= 600)
        self._chance = random.Random(f"soak-pace-{measure.seed}")
        plans = waves(measure.seed, measure.tasks)
        self._posting = Posting(self._cast, plans, random.Random(f"posting-{measure.seed}"))
        self._said_s = 0.0

    def run(self) -> dict[str, Any]:
        """Torment, rest, judgement; the summary. Raises `AssertionError` for what does not hold."""
        began_s = time.monotonic()
        with Board.open(self.world.path, self.world.folders) as watcher:
            self._torment(watcher)
            tormented_s = time.monotonic() - began_s
            rounds = self._rest()
            rested_s = time.monotonic() - began_s - tormented_s
            counts = soak_laws.check(self.world, watcher, self._measure.tasks)
        verified = self._callboard("ledger", "verify", "--json")
        return {
            "seed": self._measure.seed,
            "tasks": self._measure.tasks,
            "tormented_s": round(tormented_s, 1),
            "rested_s": round(rested_s, 1),
            "rounds_to_rest": rounds,
            **counts,
            "hits": dict(sorted(self._tormentor.hits.items())),
            "starts": dict(sorted(self._cast.starts.items())),
            "submissions_repeated": self._posting.repeated,
            "submissions_turned_away": self._posting.turned_away,
            "gave_up": dict(Counter(one.part for one in self._cast.unasked)),
            "ledger_verified": verified["works"] == self._measure.tasks,
        }

    def _torment(self, watcher: Board) -> None:
        began_s, pause = time.monotonic(), Event()
        strike_s = began_s + 3.0
        while (now_s := time.monotonic()) < began_s + self._measure.seconds:
            if not self._posting.answered:
                # Before there is a board, dispatchers would only wait for one.
                self._posting.step(0.0, torment=False)
                pause.wait(_STEP_S)
                continue
            self._cast.tend()
            self._posting.step((now_s - began_s) / self._measure.seconds, torment=True)
            self._compact((now_s - began_s) / self._measure.seconds)
            self._tormentor.thaw()
            if now_s >= strike_s:
                self._tormentor.strike()
                strike_s = now_s + self._chance.uniform(0.7, 3.3)
            self._tell(watcher, now_s - began_s)
            pause.wait(_STEP_S)
        self._tormentor.thaw(everybody=True)
        while not self._posting.is_over:
            self._posting.step(1.0, torment=False)
            pause.wait(_STEP_S)

    def _compact(self, share: float) -> None:
        """Put a checkpoint in the place of the log, five times in all."""
        name = f"{COMPACTOR}-0"
        process = self._cast.living.get(name)
        if process is not None and process.poll() is not None:
            self._cast.note(name, self._cast.living.pop(name))
        elif process is None and share * 6 >= self._cast.starts[COMPACTOR] + 1:
            self._cast.start(name, self._cast.command("ledger", "checkpoint", "--apply", "--json"))

    def _rest(self) -> int:
        """What an operator does; answers how many times `run --until-idle` was asked for."""
        for name, process in list(self._cast.living.items()):
            if process.poll() is not None:
                self._cast.note(name, process)
                del self._cast.living[name]
        statuses = self._cast.dismiss(timeout_s=120)
        # The last ones to be let go on may have been killed instead.
        assert set(statuses) <= {0, *HIT}, statuses
        unexpected = [one for one in self._cast.unasked if one.status != _GAVE_UP]
        assert not unexpected, unexpected
        for number in range(1, _ROUNDS + 1):
            workers = str(DISPATCHERS * WORKERS)
            ended = self._callboard("run", "--until-idle", "--workers", workers, "--json")
            assert ended["reason"] == "idle", ended
            if not ended["left"]:
                return number
            stuck = [one for one in ended["left"] if one["column"] == "stuck"]
            assert stuck == ended["left"], ended["left"]
            reasons = {one["reason"] for one in stuck}
            assert reasons <= {"dependency_failed", "dependency_delivery_failed"}, stuck
            works = [one["work_id"] for one in stuck]
            self._callboard("cancel", *works, "--reason", "predecessor_failed", "--json")
        raise AssertionError(f"{_ROUNDS} rounds did not bring the board to rest: {ended['left']}")

    def _callboard(self, *words: str) -> Any:
        """The JSON answer of one command."""
        done = subprocess.run(
            self._cast.command(*words),
            env=self._cast.environment,
            capture_output=True,
            cwd=self.world.root,
            check=False,
        )
        assert done.returncode == 0, (words, done.returncode, done.stderr.decode()[-2000:])
        return json.loads(done.stdout)

    def _tell(self, watcher: Board, passed_s: float) -> None:
        """A line of progress, which is also where the watcher follows the board."""
        if passed_s - self._said_s < min(_PROGRESS_S, self._measure.seconds / 6):
            return
        self._said_s = passed_s
        projection = watcher.history().projection
        settled = sum(state.is_settled for state in projection.works.values())
        sys.stderr.write(
            f"soak {passed_s:.0f}s: {settled} of {len(projection.works)} settled "
            f"({self._measure.tasks} in all), {len(projection.claims)} grants, "
            f"{len(projection.open_dispatches)} open, {sum(self._tormentor.hits.values())} hits, "
            f"{self._cast.starts[DISPATCHER]} dispatchers so far\n"
        )
        sys.stderr.flush()

    def end(self) -> None:
        """Leave nothing running."""
        self.world.end()


def main() -> int:
    """Run one soak; 0 where every law holds."""
    measure = Measure.asked(os.environ)
    root = Path(tempfile.mkdtemp(prefix="callboard-soak-"))
    home = root / "home"
    home.mkdir()
    scrub(home)
    soak = Soak(root / "world", measure)
    try:
        summary = soak.run()
    except BaseException:
        sys.stderr.write(f"soak: seed {measure.seed} failed; everything is kept in {root}\n")
        raise
    finally:
        soak.end()
    shutil.rmtree(root)
    sys.stdout.write(json.dumps({"soak": "passed", **summary}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
