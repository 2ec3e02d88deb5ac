"""Random histories of dispatchers, reconcilers, runs and a bad line: the laws of a launch hold.

A failure names its seed; `Story.of(ground, seed)` tells the same story again.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.ambient import DEEP
from tests.board.execution.hosts.faulty import ALL
from tests.board.execution.hosts.field import Ground
from tests.board.execution.hosts.stories import Story

PARTS, STORIES, STEPS = (40, 100, 80) if DEEP else (8, 40, 50)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_history_breaks_the_laws_of_a_launch(field_ground: Ground, part: int) -> None:
    met: Counter[str] = Counter()
    for seed in range(part * STORIES, (part + 1) * STORIES):
        story = Story.of(field_ground, seed)
        try:
            story.tell(STEPS)
            story.conclude()
            story.check_concluded()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        met.update(fault for _call, fault in story.field.weather.met.elements())
        states = story.field.projection.dispatches.values()
        met.update("released" if one.released else one.state for one in states)
    # The stories tell of everything that they are meant to tell of.
    assert set(met) >= {fault for faults in ALL.values() for fault in faults}
    assert met["released"] > STORIES
    assert met["unresolved"] > 0
