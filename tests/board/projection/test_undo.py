"""A refused or withdrawn commit leaves no trace, in the state or in any index beside it."""

from __future__ import annotations

import random

import pytest

from callboard import canonical
from callboard.board.ledger import replay
from callboard.board.projection.state import Projection
from callboard.board.protocol.envelope import ReadLine, read_line
from callboard.board.scheduling.packing import BatchRequest, plan_batch
from callboard.errors import CallboardError
from tests.ambient import DEEP
from tests.board.projection.audit import Index, counted, document, kept
from tests.model.history import mutations, random_history

SEEDS = range(10_000, 10_300) if DEEP else range(10_000, 10_012)


def line_of(commit: object) -> ReadLine:
    return read_line(canonical.encode(commit))


def plans(projection: Projection, at: int) -> list[object]:
    """What each pool would grant next, and why no more."""
    found: list[object] = []
    for name in sorted(projection.policy.pools):
        plan = plan_batch(projection, BatchRequest(name, 256, 256, 49_152, "r", "q"), at)
        found.append((plan.claims, canonical.encode([*plan.assignments]), plan.stop, plan.clocks))
    return found


def whole(projection: Projection, at: int) -> tuple[bytes, Index, list[object], object]:
    return (
        document(projection),
        kept(projection, at),
        plans(projection, at),
        (dict(projection.runs), dict(projection.commit_ids), set(projection.requests)),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_indexes_are_what_a_fresh_count_gives_and_undo_is_exact(seed: int) -> None:
    chance = random.Random(seed)
    projection = Projection()
    for commit in random_history(seed, 50):
        line = line_of(commit)
        at = max(0, line.commit.at + chance.choice([0, 1, 40_000, -70_000]))
        if projection.tip is not None:
            before = whole(projection, at)
            replay.apply(projection, line)
            replay.take_back(projection)
            assert whole(projection, at) == before
        replay.apply(projection, line)
        assert kept(projection, at) == counted(projection, at)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_refused_commit_leaves_no_trace(seed: int) -> None:
    history = random_history(seed, 40)
    projection = Projection()
    applied = refusals = 0
    for mutation in mutations(history, seed, 3):
        while applied < mutation.index:
            replay.apply(projection, line_of(history[applied]))
            applied += 1
        if projection.tip is None or len(mutation.commits) > 1:
            continue
        at = projection.last_at + 1
        before = whole(projection, at)
        try:
            line = line_of(mutation.commits[0])
        except CallboardError:
            continue
        with pytest.raises(CallboardError):
            replay.apply(projection, line)
        assert whole(projection, at) == before, mutation.note
        refusals += 1
    assert refusals > 0


def test_taking_back_twice_takes_back_once() -> None:
    history = random_history(10_000, 10)
    projection = Projection()
    for commit in history[:-1]:
        replay.apply(projection, line_of(commit))
    before = document(projection)
    replay.apply(projection, line_of(history[-1]))
    replay.take_back(projection)
    replay.take_back(projection)
    assert document(projection) == before
    replay.apply(projection, line_of(history[-1]))
    assert projection.tip == history[-1]["id"]


def test_a_withdrawn_genesis_leaves_an_empty_board() -> None:
    projection = Projection()
    first = line_of(random_history(10_001, 3)[0])
    for _ in range(2):
        replay.apply(projection, first)
        assert projection.tip == first.commit.id
        replay.take_back(projection)
        assert projection.tip is None
        assert projection.repository is None
        assert not projection.works
        assert not projection.pools
        with pytest.raises(CallboardError):
            assert projection.policy
    assert projection.seen_generations == {"initial": True}
    assert projection.reserve_bytes == projection.ledger_bytes == projection.ordinal == 0
