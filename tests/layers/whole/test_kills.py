"""Any process of a two-level run killed after any one effect: the next run ends as well."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.ambient import DEEP
from tests.layers.whole.played import Played, prepare

END = {
    "layers": [
        (0, None, "goal_met", "terminal", "Have the part done"),
        (1, "part", "goal_met", "terminal", "Write part.txt"),
    ],
    "requests": [(["part"], 0)],
    "outcomes": [("part", "goal_met", "accepted")],
    "part": "done\n",
    "findings": [],
}
SAMPLE = 10
"""How many of all effects are tried in a short run, from the first to the last."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A tree that has not run yet."""
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="module")
def count(prepared: Played, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many effects a run without a kill has."""
    played = prepared.copy(tmp_path_factory.mktemp("whole") / "run")
    done = played.run()
    assert done.stdout == "over goal_met\n", done.stderr
    assert played.end() == END
    assert set(played.executions().values()) == {1}
    assert len(played.executions()) == 4
    return len(played.effects)


def killed(prepared: Played, folder: Path, kill_at: int) -> str | None:
    """What is wrong after a kill at one effect and a second run; None: nothing is."""
    played = prepared.copy(folder)
    first = played.run(kill_at=kill_at)
    at = played.effects[kill_at - 1] if len(played.effects) >= kill_at else "not reached"
    second = played.run(count=False)
    found = played.end()
    twice = [attempt for attempt, times in played.executions().items() if times > 1]
    if second.stdout != "over goal_met\n" or found != END or twice:
        said = first.stderr + second.stdout + second.stderr
        return f"{kill_at} ({at}): {said} {found} executed twice: {twice}"
    return None


@pytest.mark.timeout(3600 if DEEP else 300)
def test_killed_after_an_effect_the_next_run_comes_to_the_same_end(
    prepared: Played, count: int, tmp_path: Path
) -> None:
    assert count > 100
    step = 1 if DEEP else count // SAMPLE

    def tried(kill_at: int) -> str | None:
        return killed(prepared, tmp_path / str(kill_at), kill_at)

    # Each is a wait for processes; two of them keep two cores busy.
    with ThreadPoolExecutor(max_workers=2) as pool:
        wrong = [found for found in pool.map(tried, range(1, count + 1, step)) if found]
    assert wrong == []
