"""Every refusal of the core: reached, told in plain words, and without a trace on the board."""

from __future__ import annotations

import pytest

from callboard import canonical
from callboard.errors import CallboardError
from tests.board.ledger import (
    refusals_of_checkpoints,
    refusals_of_records,
    refusals_of_runs,
    refusals_of_work,
)
from tests.board.ledger.refusals import CASES, Case, codes_in_source

TABLES = (refusals_of_records, refusals_of_work, refusals_of_runs, refusals_of_checkpoints)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_a_refusal_tells_its_code_what_it_found_and_a_way_on(case: Case) -> None:
    with pytest.raises(CallboardError) as caught:
        case.provoke()
    error = caught.value
    if case.wrapped:
        assert error.code == "ledger_invalid"
        assert error.details["cause"] == case.code
        assert isinstance(error.details["line"], int)
    else:
        assert error.code == case.code
    assert case.shows in error.message
    assert error.hint.strip()
    assert canonical.encode(error.document())


def test_every_code_of_the_core_has_a_case_and_every_case_a_code() -> None:
    assert {case.code for case in CASES} == codes_in_source()


def test_each_table_has_its_cases_and_no_two_share_a_name() -> None:
    homes = {case.provoke.__module__ for case in CASES}
    assert homes == {table.__name__ for table in TABLES}
    assert len({case.name for case in CASES}) == len(CASES) > 90
