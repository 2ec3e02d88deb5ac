"""How long does it take to look at a tree of 1,000 layers, and how long is a coordinator's step?

Prints one JSON line a figure, medians in milliseconds: `layers_status`, `layers_next`,
`layers_begin` (a role is chosen, its attempt frozen) and `layers_finish` (its result is taken in),
both without the harness. Floors, in the same run: for looking, reading and decoding the same files
bare; for steps, writing as many files durably.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

from _figures import show
from _layers import leave_result, make_tree

from callboard.layers import tree
from callboard.layers.around import of_machine
from callboard.layers.coordinating import Coordinator
from callboard.layers.layers import Layers


def taken_ms(act: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def median_ms(act: Callable[[], object], runs: int) -> float:
    """The median time of `runs` calls."""
    return statistics.median(taken_ms(act) for _run in range(runs))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--small", action="store_true", help="a fiftieth of everything")
    words = parser.parse_args()
    sessions = 20 if words.small else 1000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        layers = Layers(make_tree(root, sessions))
        looks(layers, root, words.runs, sessions)
        steps(root, 3 if words.small else words.runs)


def looks(layers: Layers, root: Path, runs: int, sessions: int) -> None:
    """Looking at the whole tree, and at its deepest layer."""
    places = [
        root / node.layer.place / name
        for node in layers.status()
        for name in ("session.json", "state.json", "goal_contract.json")
    ]

    def read_bare() -> None:
        for place in places:
            json.loads(place.read_bytes())

    bare = median_ms(read_bare, runs)
    show("layers_status", median_ms(layers.status, runs), bare, unit="ms", n=sessions)
    top = layers.status()[0].layer.place
    own = [
        root / top / f"{name}.json"
        for name in ("session", "state", "goal_contract", "workflow_contract")
    ]

    def read_own() -> None:
        for place in own:
            json.loads(place.read_bytes())

    show("layers_next", median_ms(layers.next, runs), median_ms(read_own, runs), unit="ms", n=runs)


def steps(root: Path, runs: int) -> None:
    """The two steps of an attempt, each beside as many durable files."""
    effects: list[str] = []
    around = of_machine(root, dict(os.environ), effect=lambda step, _place: effects.append(step))
    coordinator = Coordinator(around, tree.root(around.disk), Event())
    times: dict[str, list[float]] = {"begin": [], "finish": []}
    counts: dict[str, int] = {}

    def step(name: str) -> None:
        effects.clear()
        times[name].append(taken_ms(coordinator.step))
        counts[name] = effects.count("write") + effects.count("append")

    for _run in range(runs):
        step("begin")
        layer = tree.root(around.disk)
        task = tree.read_state(around.disk, layer).task
        assert task is not None
        leave_result(around, layer, task.attempt_id)
        step("finish")
    numbers = itertools.count()
    for name, found in times.items():
        bare = median_ms(partial(write_bare, root, counts[name], numbers), runs)
        show(
            f"layers_{name}", statistics.median(found), bare, unit="ms", n=runs, files=counts[name]
        )


def write_bare(root: Path, count: int, numbers: itertools.count[int]) -> None:
    """So many files of a kilobyte, each written, synced and renamed, and its folder synced."""
    for _file in range(count):
        place = root / f"bare_{next(numbers)}"
        with (root / "bare.tmp").open("wb") as stream:
            stream.write(b"x" * 1024)
            stream.flush()
            os.fsync(stream.fileno())
        (root / "bare.tmp").rename(place)
        folder = os.open(root, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


if __name__ == "__main__":
    main()
