"""Random histories through the engine and through the independent model: no difference.

An ordinary run takes a sample; `make test-deep` takes thousands.
"""

import pytest

from callboard.board.projection.state import Projection
from tests.ambient import DEEP
from tests.board.ledger.comparison import (
    ENGINE_LACKS,
    compare_history,
    compare_mutations,
    engine_apply,
)
from tests.model.history import random_history

HISTORIES = range(2_400) if DEEP else range(0, 2_400, 60)
MUTATED = range(400) if DEEP else range(0, 400, 25)


@pytest.mark.parametrize("seed", HISTORIES)
def test_engine_and_model_agree_at_every_prefix(seed: int) -> None:
    assert compare_history(seed) > 0


@pytest.mark.parametrize("seed", MUTATED)
def test_what_the_model_refuses_the_engine_refuses_and_changes_nothing(seed: int) -> None:
    assert compare_mutations(seed) > 0


def test_histories_leave_out_only_what_the_engine_does_not_take() -> None:
    """A kind that the engine has learned must be drawn from then on."""
    refused = set()
    for seed in range(3 if ENGINE_LACKS else 0):
        projection = Projection()
        for commit in random_history(seed):
            if code := engine_apply(projection, commit):
                assert code == "unsupported_operation"
                refused.add(commit["request"]["kind"])
                break
    assert refused <= ENGINE_LACKS
    assert bool(refused) == bool(ENGINE_LACKS)
