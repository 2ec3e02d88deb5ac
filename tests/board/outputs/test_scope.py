"""The table of selectors, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.board.outputs.scope import resolve
from callboard.errors import CallboardError
from tests.board.outputs.scene import NO_WRITES, assignment

ONE = assignment(NO_WRITES)
TWO = assignment(NO_WRITES, NO_WRITES)


def test_a_sole_claim_is_meant_by_an_absent_selector() -> None:
    assert resolve(ONE, {}).handle == "h1"


def test_a_correct_selector_is_kept() -> None:
    assert resolve(ONE, {"claim_handle": "h1"}).handle == "h1"
    assert resolve(TWO, {"claim_handle": "h2"}).handle == "h2"


def test_several_claims_need_a_selector() -> None:
    with pytest.raises(CallboardError) as refused:
        resolve(TWO, {})
    assert refused.value.code == "claim_scope_required"
    assert refused.value.details == {"handles": ["h1", "h2"]}


@pytest.mark.parametrize("members", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize(
    "selector", [None, "", "h3", "H1", "h1 ", " h1", "h1\n", 1, True, ["h1"], {"h1": 1}, "\ud800"]
)
def test_whatever_else_is_given_is_wrong(members: Any, selector: Any) -> None:
    with pytest.raises(CallboardError) as refused:
        resolve(members, {"claim_handle": selector})
    assert refused.value.code == "claim_scope_invalid"


def test_a_claim_id_or_work_id_is_no_handle() -> None:
    for foreign in (ONE.claims[0].claim_id, ONE.claims[0].work_id):
        with pytest.raises(CallboardError, match="claim_scope_invalid"):
            resolve(ONE, {"claim_handle": foreign})
