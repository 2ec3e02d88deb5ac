"""Which cap ends a layer, from which number on, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.layers.records.state import RoleHistory, Usage
from callboard.layers.stopping import stop_of
from tests.layers.contracts import contract, role, state

CAPS = {
    "max_turns": 5,
    "max_role_failures": 2,
    "max_invalid_controls": 1,
    "max_failed_goal_checks": 3,
    "max_cost_microusd": 1_500_000,
}
BELOW: dict[str, Any] = {
    "iteration": 4,
    "roles": {"a": RoleHistory(failures_in_row=1), "b": RoleHistory(failures_in_row=1)},
    "invalid_controls": 0,
    "failed_goal_checks": 2,
    "own_usage": Usage(cost_microusd=700_000),
    "rolled_usage": Usage(cost_microusd=799_999),
}
REACHED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"roles": {"a": RoleHistory(failures_in_row=1), "b": RoleHistory(failures_in_row=2)}},
        "role_failures",
        "b failed 2 times in a row, and 2 of them end the layer",
    ),
    (
        {"invalid_controls": 1},
        "invalid_control",
        "1 control could not be followed, and 1 of them ends the layer",
    ),
    (
        {"failed_goal_checks": 3},
        "failed_goal_checks",
        "the goal was checked and not met 3 times, and 3 of them end the layer",
    ),
    (
        {"rolled_usage": Usage(cost_microusd=800_000)},
        "cost_cap",
        "the layer with all below it has cost 1.500000 USD, of 1.500000 USD allowed",
    ),
    ({"iteration": 5}, "max_turns", "5 attempts of 5 allowed were begun"),
]
LAYER = contract(role("a"), role("b"), caps=CAPS)


def test_nothing_ends_a_layer_one_below_every_cap() -> None:
    assert stop_of(LAYER, state(**BELOW)) is None


@pytest.mark.parametrize(
    ("changed", "reason", "sentence"), REACHED, ids=[one[1] for one in REACHED]
)
def test_each_cap_ends_the_layer_when_it_is_reached(
    changed: dict[str, Any], reason: str, sentence: str
) -> None:
    assert stop_of(LAYER, state(**BELOW | changed)) == (reason, sentence)


@pytest.mark.parametrize("first", range(len(REACHED)))
def test_of_two_caps_the_one_that_tells_more_is_the_reason(first: int) -> None:
    together: dict[str, Any] = dict(BELOW)
    for changed, _, _ in REACHED[first:]:
        together |= changed
    found = stop_of(LAYER, state(**together))
    assert found is not None
    assert found[0] == REACHED[first][1]


def test_caps_that_are_none_never_end_a_layer() -> None:
    endless = contract(role("a"), caps={"max_turns": None, "max_cost_microusd": None})
    spent = Usage(cost_microusd=2**53 - 1)
    assert stop_of(endless, state(iteration=10**9, own_usage=spent)) is None
