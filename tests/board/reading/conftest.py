"""Parts that tests of reading share."""

from __future__ import annotations

import pytest

from tests.board.reading.staged_board import StagedBoard


@pytest.fixture
def board() -> StagedBoard:
    """A board under the default policy."""
    return StagedBoard()
