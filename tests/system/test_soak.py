"""A board under random kills and stops comes to rest with nothing lost, doubled or left over."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from callboard.board.protocol import operations as ops
from tests.ambient import DEEP
from tests.system import soak_laws
from tests.system.soak import Measure, Soak
from tests.system.soak_plans import CONFIG, recipes, waves
from tests.system.world import World, make_world

SHORT = Measure(seconds=60.0, tasks=24, seed=20)
LONG = Measure.asked(os.environ)


@pytest.mark.timeout(3 * LONG.seconds + 600 if DEEP else 300)
def test_a_tormented_board_comes_to_rest(tmp_path: Path) -> None:
    measure = LONG if DEEP else SHORT
    soak = Soak(tmp_path / "world", measure)
    try:
        summary = soak.run()
    finally:
        soak.end()
    sys.stdout.write(json.dumps(summary) + "\n")
    # The laws were checked by the soak itself; these say that it was one.
    assert sum(summary["works"].values()) == measure.tasks
    assert summary["completions"] == summary["results"] == summary["works"]["verified"]
    assert summary["executions"] <= summary["grants"]
    hits = summary["hits"]
    assert {"SIGKILL", "SIGSTOP", "SIGCONT"} <= {one.split()[1] for one in hits}
    assert sum(hits.values()) >= measure.seconds / 6
    assert summary["ledger_verified"]


def _run_three(root: Path) -> World:
    """A board at rest after three tasks of the soak's own worker, one of which failed at first."""
    world = make_world(root, recipes=recipes(root / "journal"), config=CONFIG)
    for key, acts in (("good", ["well"]), ("bad", ["fail", "well"]), ("other", ["litter"])):
        world.submit({"key": key, "payload": {"acts": acts}, "profile": "default"})
    world.run()
    return world


def test_the_laws_see_what_is_doubled_lost_or_made_up(tmp_path: Path) -> None:
    world = _run_three(tmp_path / "world")
    journal = world.file("journal")
    try:
        with world.open() as watcher:
            counts = soak_laws.check(world, watcher, tasks=3)
            assert counts["works"] == {"verified": 3}
            assert counts["executions"] == counts["grants"] == 4
            text = journal.read_text()
            completed = {
                one.claim_id for one in world.operations() if isinstance(one, ops.Completion)
            }
            # One that came to something; which run is the first to begin is left to chance.
            lines = text.splitlines(keepends=True)
            first = next(one for one in lines if json.loads(one)["claim_id"] in completed)
            others = [one for one in lines if one != first]
            entry = json.loads(first)
            for found in (
                text + first,
                "".join(others),
                text.replace(entry["run_id"], "1"),
                text.replace(f'"pid": {entry["pid"]}', '"pid": 1'),
                text.replace('"living": []', '"living": [1]', 1),
                text + json.dumps({**entry, "claim_id": "never_granted"}) + "\n",
            ):
                assert found != text
                journal.write_text(found)
                with pytest.raises(AssertionError):
                    soak_laws.check(world, watcher, tasks=3)
            journal.write_text(text)
            with pytest.raises(AssertionError):
                soak_laws.check(world, watcher, tasks=4)
            soak_laws.check(world, watcher, tasks=3)
    finally:
        world.end()


def test_the_same_seed_posts_the_same_waves() -> None:
    assert waves(7, 100) == waves(7, 100)
    assert waves(7, 100) != waves(8, 100)
    assert sum(len(wave["nodes"]) for wave in waves(7, 103)) == 103
