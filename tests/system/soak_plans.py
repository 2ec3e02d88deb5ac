"""What a soak posts: waves of small graphs, drawn from a seed, and the recipes that run them.

Pure values; the same seed gives the same plans, so that a submission can be repeated at any time.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from tests.system.world import recipe

WORKER = Path(__file__).with_name("soak_worker.py")
DISPATCHERS = 3
WORKERS = 2
MAX_ATTEMPTS = 6
CONFIG = f"""\
[board]
checkpoint_percent = 1

[work_queue]
concurrency = {DISPATCHERS * WORKERS}
retry = {{max_attempts = {MAX_ATTEMPTS}, backoff_seconds = 1}}
accounting_weights = {{loud = 3, quiet = 1}}
"""

_ANYWHERE = ("fail", "crash", "forget", "give_up", "finish_and_crash", "litter")
_HANGING = ("hang", "hang_on")
_WELL = ("well", "slow")
# Of a hundred: how many fail at first, how many of them always do, and where the rest may hang.
_FAILING, _DOOMED, _SHORT = 30, 5, 12


def recipes(journal: Path) -> dict[str, str]:
    """`default` delivers one Claim a run, `batch` several, `short` is soon out of time."""
    command = [sys.executable, "-I", "-S", str(WORKER), str(journal)]
    return {
        "default": recipe(command, timeout_s=60),
        "batch": recipe(command, max_claims=4, outputs=["artifact"], timeout_s=60),
        "short": recipe(command, timeout_s=3),
    }


def waves(seed: int, tasks: int) -> list[dict[str, Any]]:
    """Plans of `tasks` nodes in all."""
    chance = random.Random(f"soak-{seed}")
    size = max(6, min(40, tasks // 5))
    counts = [size] * (tasks // size)
    if tasks % size:
        counts.append(tasks % size)
    return [_wave(chance, number, count) for number, count in enumerate(counts)]


def _wave(chance: random.Random, number: int, count: int) -> dict[str, Any]:
    """Chains, fans and single tasks, one behind the other until there are enough."""
    nodes: list[dict[str, Any]] = []
    while len(nodes) < count:
        width = min(chance.randint(1, 6), count - len(nodes))
        first = len(nodes)
        shape = chance.choice(("chain", "fan", "alone"))
        for place in range(width):
            after: list[int] = []
            if shape == "chain" and place:
                after = [first + place - 1]
            elif shape == "fan" and 0 < place < width - 1:
                after = [first]
            elif shape == "fan" and place:
                after = list(range(first, first + place))
            nodes.append(_node(chance, number, first + place, after))
    return {"graph": f"wave-{number}", "nodes": nodes}


def _node(chance: random.Random, wave: int, place: int, after: list[int]) -> dict[str, Any]:
    worker = chance.choices(("default", "batch", "short"), (45, 43, _SHORT))[0]
    contract: dict[str, int] = {}
    if chance.random() < 0.5:
        contract = {"artifact": 1}
    if worker != "batch" and chance.random() < 0.3:
        contract["patch"] = 1
    return {
        "key": f"w{wave}-{place}",
        "payload": {"acts": _acts(chance, worker, contract)},
        "profile": worker,
        "contract": contract,
        "priority": chance.randint(1, 5),
        "fairness_key": chance.choice(("loud", "quiet")),
        **({"after": [f"w{wave}-{one}" for one in after]} if after else {}),
    }


def _acts(chance: random.Random, worker: str, contract: dict[str, int]) -> list[str]:
    """What the first executions do; the last act is that of all later ones too."""
    bad = list(_ANYWHERE)
    bad += _HANGING if worker == "short" else ()
    bad += ["empty_handed"] if contract else ()
    bad += ["forge"] if "artifact" in contract else ()
    acts: list[str] = []
    if chance.randrange(100) < _FAILING:
        acts = [chance.choice(bad) for _act in range(chance.randint(1, 2))]
        if chance.randrange(100) < _DOOMED:
            # These never come right: their attempts end, and what waits for them has to be ended.
            return [chance.choice(("fail", "crash", "forget", "give_up"))]
    return [*acts, "well" if worker == "short" else chance.choice(_WELL)]
