"""How fast is the planner with 4,096 ready Work over 1,024 keys and 5 classes?

Measured in memory: single selections one after the other until all Work is served, and batches of
256 Claims in groups of 16. Floor: for each selection one heap operation on as many keys, in pure
Python. Prints one JSON line a figure.
"""

from __future__ import annotations

import heapq
import statistics
import time

from _figures import show
from _ledgers import PRODUCER, REPOSITORY, Writer
from msgspec import structs

from callboard.board.projection.state import Projection
from callboard.board.protocol.policy import (
    CEILINGS,
    PolicyDocument,
    Pool,
    Profile,
    Reconciliation,
    Retry,
)
from callboard.board.publishing.intents import Submit
from callboard.board.publishing.plan import parse_plan
from callboard.board.scheduling.competition import Competition, Stop
from callboard.board.scheduling.packing import BatchRequest, plan_batch

WORKS, KEYS, CLASSES, BATCH = 4096, 1024, 5, 256
_RUNS = 7
_AT = 1_800_000_000_000


def policy() -> PolicyDocument:
    """Weights of seven sizes; limits so small that the reserve has room for so much open Work."""
    profile = Profile(
        workflow=".callboard/workers/default.toml",
        ref="a" * 40,
        trust_domain="default",
        credential_scope="repository",
        effect_scope=REPOSITORY,
        max_claims=16,
        share_keys=True,
    )
    return PolicyDocument(
        mode="weighted-priority",
        class_weights=[8, 4, 2, 1, 1],
        accounting_weights={"": 1, **{f"key-{n}": 1 + n % 7 for n in range(1, KEYS)}},
        authorization="aw",
        producers={},
        pools={
            "default": Pool(
                default_profile="default",
                profiles={"default": profile},
                logical_limit=4096,
                native_limit=4096,
                allowed_repositories=[REPOSITORY],
                max_observation_age_ms=60_000,
                retry=Retry(max_attempts=1, backoff_ms=1000),
                reconciliation=Reconciliation(max_attempts=1, deadline_ms=1000),
            )
        },
        limits=structs.replace(CEILINGS, result_bytes=1, evidence_bytes=1),
    )


def crowded() -> Projection:
    """A board on which all that Work is ready."""
    writer = Writer()
    for start in range(0, WORKS, CEILINGS.operations - 1):
        numbers = range(start, min(WORKS, start + CEILINGS.operations - 1))
        plan = parse_plan(
            {
                "graph": f"g{start}",
                "nodes": [
                    {
                        "key": f"n{number}",
                        "payload": {},
                        "priority": 1 + number % CLASSES,
                        "fairness_key": f"key-{number % KEYS}" if number % KEYS else "",
                    }
                    for number in numbers
                ],
            }
        )
        writer.publish(Submit(f"s{start}", PRODUCER, plan, policy, lambda _routes, _works: None))
    return writer.projection


def all_served_s(projection: Projection) -> float:
    """Seconds for one selection."""
    start = time.process_time()
    competition = Competition(projection, "default", _AT)
    served = 0
    while not isinstance(winner := competition.next(), Stop):
        competition.serve(winner)
        served += 1
    assert served == WORKS
    return (time.process_time() - start) / served


def batch_s(projection: Projection) -> float:
    """Seconds for one batch."""
    start = time.process_time()
    asked = BatchRequest("default", BATCH, BATCH, CEILINGS.assignment_bytes, "r", "q")
    assert len(plan_batch(projection, asked, _AT).claims) == BATCH
    return time.process_time() - start


def floor_s() -> float:
    """Seconds for one heap operation."""
    heap = [(number, f"key-{number}") for number in range(KEYS)]
    start = time.process_time()
    for number in range(WORKS):
        heapq.heapreplace(heap, (heap[0][0] + KEYS, f"key-{number}"))
    return (time.process_time() - start) / WORKS


def main() -> None:
    """Medians of several runs."""
    projection = crowded()
    floor = statistics.median(floor_s() for _run in range(_RUNS))
    one = statistics.median(all_served_s(projection) for _run in range(_RUNS))
    show("one selection", 1e6 * one, 1e6 * floor, unit="us", n=WORKS, per_second=round(1 / one))
    batch = statistics.median(batch_s(projection) for _run in range(_RUNS))
    show(f"a batch of {BATCH} Claims", 1e3 * batch, 1e3 * BATCH * floor, unit="ms", n=_RUNS)


if __name__ == "__main__":
    main()
