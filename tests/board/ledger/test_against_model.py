"""Random histories through the engine and through the independent model: no difference.

An ordinary run takes a sample; `make test-deep` takes thousands.
"""

import pytest

from tests.ambient import DEEP
from tests.board.ledger.comparison import compare_history, compare_mutations

HISTORIES = range(2_400) if DEEP else range(0, 2_400, 60)
MUTATED = range(400) if DEEP else range(0, 400, 25)


@pytest.mark.parametrize("seed", HISTORIES)
def test_engine_and_model_agree_at_every_prefix(seed: int) -> None:
    assert compare_history(seed) > 0


@pytest.mark.parametrize("seed", MUTATED)
def test_what_the_model_refuses_the_engine_refuses_and_changes_nothing(seed: int) -> None:
    assert compare_mutations(seed) > 0
