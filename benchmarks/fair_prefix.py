"""How much capacity stays idle because a fair prefix stops at a winner that does not fit?

A pool of 64 slots, with twice as much ready Work of several workers in seeded random order, is
granted from again and again by requests that may launch a bounded number of runs each; after every
grant a quarter of the runs end. `value` is the share of slots, in per cent, that stay free though
ready Work waits; the floor is that of requests that may launch as many runs as they like, or one
per cent where that is nothing. Counted with the engine's own planner, on no clock. Prints one JSON
line a figure.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from _figures import show
from _ledgers import DISPATCHER, PRODUCER, Writer, end_dispatch, policy
from msgspec import structs

from callboard.board.protocol import commit as wire
from callboard.board.protocol.policy import PolicyDocument
from callboard.board.publishing.intents import DispatchNext, Submit
from callboard.board.publishing.plan import parse_plan

SLOTS, ROUNDS, SEED = 64, 100, 20_261_130


@dataclass(frozen=True)
class Mix:
    """How many workers Work is of, how many tasks a run may hold, and runs a request launches."""

    workers: int
    tasks_a_run: int
    runs_a_request: int


def rules(mix: Mix) -> PolicyDocument:
    """One pool with that many workers."""
    made = policy()
    pool = made.pools["default"]
    profile = structs.replace(pool.profiles["default"], max_claims=mix.tasks_a_run, share_keys=True)
    profiles = {f"w{number}": profile for number in range(mix.workers)}
    pool = structs.replace(
        pool, profiles=profiles, default_profile="w0", logical_limit=SLOTS, native_limit=SLOTS
    )
    return structs.replace(made, pools={"default": pool})


class Rounds:
    """One board, granted from round after round."""

    def __init__(self, mix: Mix) -> None:
        self._mix = mix
        self._chance = random.Random(SEED)
        self._writer = Writer()
        self._plans = self._runs = 0

    def idle_percent(self) -> float:
        """The share of slots left free after the grants of all rounds."""
        idle = 0
        for _round in range(ROUNDS):
            self._refill()
            idle += SLOTS - self._grant()
            self._end_some()
        return 100 * idle / (ROUNDS * SLOTS)

    def _refill(self) -> None:
        counters = self._writer.projection.counters
        count = 2 * SLOTS - counters.available
        if count <= 0:
            return
        nodes = [
            {
                "key": f"n{n}",
                "payload": {},
                "profile": f"w{self._chance.randrange(self._mix.workers)}",
            }
            for n in range(count)
        ]
        plan = parse_plan({"graph": f"g{self._plans}", "nodes": nodes})
        name = f"s{self._plans}"
        self._plans += 1
        self._writer.publish(
            Submit(name, PRODUCER, plan, lambda: rules(self._mix), lambda _routes, _works: None)
        )

    def _grant(self) -> int:
        projection = self._writer.projection
        asked = wire.DispatchNextParameters(
            pool="default",
            max_claims=SLOTS,
            max_dispatches=self._mix.runs_a_request,
            max_bytes=49_152,
        )
        self._writer.publish(DispatchNext(f"grant-{projection.tip}", DISPATCHER, asked))
        return projection.pools["default"].open_claims

    def _end_some(self) -> None:
        for dispatch_id in list(self._writer.projection.open_dispatches):
            if self._chance.random() < 0.25:
                end_dispatch(self._writer, dispatch_id, self._runs)
                self._runs += 1


def main() -> None:
    """Some mixes, from one worker to many."""
    for mix in (Mix(1, 1, 64), Mix(2, 4, 8), Mix(4, 4, 8), Mix(4, 16, 4), Mix(8, 16, 4)):
        name = (
            f"idle slots: {mix.workers} workers, {mix.tasks_a_run} tasks a run, "
            f"{mix.runs_a_request} runs a request"
        )
        least = Rounds(unbounded(mix)).idle_percent()
        show(name, Rounds(mix).idle_percent(), least or 1, unit="%", n=ROUNDS)


def unbounded(mix: Mix) -> Mix:
    """The same with as many runs a request as there are slots."""
    return Mix(mix.workers, mix.tasks_a_run, SLOTS)


if __name__ == "__main__":
    main()
