"""Outlasting what keeps a board from being written: what is repeated, how long, and who hears."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from callboard.board.execution.outlast import FIRST_PAUSE_S, PASSING, outlast
from callboard.errors import CallboardError


def _failing(*codes: str) -> tuple[Callable[[], str], list[str]]:
    """An act that is refused with each of `codes` in turn, then answers; and what is left."""
    left = list(codes)

    def act() -> str:
        if left:
            raise CallboardError(left.pop(0), "no", "put it right")
        return "done"

    return act, left


@pytest.mark.parametrize("code", sorted(PASSING))
def test_an_act_is_repeated_until_it_is_judged_and_each_obstacle_is_told_once(code: str) -> None:
    heard: list[str] = []
    act, left = _failing(code, code)
    assert outlast(act, lambda error: heard.append(error.code)) == "done"
    assert (left, heard) == ([], [code])


def test_a_new_obstacle_is_told_as_well() -> None:
    heard: list[str] = []
    act, _left = _failing("ref_locked", "storage_failed")
    assert outlast(act, lambda error: heard.append(error.code)) == "done"
    assert heard == ["ref_locked", "storage_failed"]


@pytest.mark.parametrize("code", ["run_binding_conflict", "outcome_unknown", "claim_closed"])
def test_what_was_judged_or_has_a_patience_of_its_own_is_not_repeated(code: str) -> None:
    heard: list[str] = []
    act, left = _failing(code, "never")
    with pytest.raises(CallboardError) as refused:
        outlast(act, lambda error: heard.append(error.code))
    assert (refused.value.code, left, heard) == (code, ["never"], [])


def test_a_remote_that_takes_nothing_is_outlasted_unless_this_clone_may_be_why() -> None:
    left, heard = [False, True], list[bool]()

    def act() -> str:
        shallow = left.pop(0)
        raise CallboardError("push_refused", "no", "put it right", {"shallow": shallow})

    with pytest.raises(CallboardError):
        outlast(act, lambda error: heard.append(bool(error.details["shallow"])))
    assert (left, heard) == ([], [False])


def test_patience_ends_with_the_last_refusal() -> None:
    act, left = _failing("storage_failed", "ref_locked", "never")
    with pytest.raises(CallboardError) as refused:
        outlast(act, lambda _error: None, patience_s=FIRST_PAUSE_S * 2)
    assert (refused.value.code, left) == ("ref_locked", ["never"])
