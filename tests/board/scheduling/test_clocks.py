"""Virtual passes: exact shares, no credit for idling, and nothing lost by stopping and going on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import pairwise
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.board.projection.entities import Clock
from callboard.board.scheduling.clocks import Contest, Strides
from tests.board.scheduling.textbook import Siblings


def serve(contest: Contest, count: int) -> list[str]:
    found = []
    for _ in range(count):
        leader = contest.leader()
        assert leader is not None
        found.append(leader[0])
        contest.serve()
    return found


def grants(
    weights: Mapping[str, int], eligible: Collection[str], count: int, clock: Clock | None = None
) -> tuple[list[str], Clock]:
    """`count` grants, each from the clock that the one before it left."""
    strides, clock, found = Strides(weights), clock or Clock(), []
    for _ in range(count):
        contest = Contest(clock, strides, eligible)
        found += serve(contest, 1)
        clock = contest.clock()
    return found, clock


def test_three_keys_get_their_exact_shares_of_ten_thousand() -> None:
    contest = Contest(Clock(), Strides({"": 1, "a": 5, "b": 3, "c": 2}), ["a", "b", "c"])
    assert Counter(serve(contest, 10_000)) == {"a": 5_000, "b": 3_000, "c": 2_000}


def test_classes_and_the_keys_in_one_of_them_get_their_exact_shares() -> None:
    classes = Contest(
        Clock(),
        Strides({str(n): weight for n, weight in enumerate([8, 4, 2, 1, 1], start=1)}),
        list("12345"),
    )
    third = Contest(Clock(), Strides({"": 1, "a": 5, "b": 3, "c": 2}), ["a", "b", "c"])
    served, within = Counter[str](), Counter[str]()
    for name in serve(classes, 16_000):
        served[name] += 1
        if name == "3":
            within.update(serve(third, 1))
    assert served == {"1": 8_000, "2": 4_000, "3": 2_000, "4": 1_000, "5": 1_000}
    assert within == {"a": 1_000, "b": 600, "c": 400}


@pytest.mark.parametrize("weights", [{}, {"a": 1, "b": 1}, {"a": 7, "b": 7, "": 1}])
def test_a_late_joiner_alternates_at_once(weights: dict[str, int]) -> None:
    _found, clock = grants(weights, ["a"], 1_000)
    found, _clock = grants(weights, ["a", "b"], 8, clock)
    assert sorted(found[:2]) == ["a", "b"]
    assert all(one != other for one, other in pairwise(found))


def test_a_returning_idler_has_no_credit() -> None:
    weights = {"": 1, "a": 1, "b": 1}
    _both, clock = grants(weights, ["a", "b"], 10)
    _alone, clock = grants(weights, ["a"], 1_000, clock)
    found, _clock = grants(weights, ["a", "b"], 8, clock)
    assert all(one != other for one, other in pairwise(found))


def test_a_key_that_leaves_and_returns_keeps_its_debt() -> None:
    """Leaving for one grant does not bring the next turn forward."""
    weights = {"": 1, "a": 1, "b": 10}
    _found, clock = grants(weights, ["a", "b"], 11)
    debt = clock.passes["a"]
    _found, clock = grants(weights, ["b"], 1, clock)
    _found, clock = grants(weights, ["a", "b"], 1, clock)
    assert clock.passes["a"] >= debt


def test_a_stop_after_seventeen_grants_changes_nothing() -> None:
    weights = {"": 1, "a": 5, "b": 3, "c": 2, "d": 7}
    whole = serve(Contest(Clock(), Strides(weights), list("abcd")), 117)
    _first, clock = grants(weights, list("abcd"), 17)
    copy = Clock(clock.v, dict(clock.passes), frozenset(clock.active))
    found, _clock = grants(weights, list("abcd"), 100, copy)
    assert found == whole[17:]


def test_ties_go_by_utf8_bytes() -> None:
    names = ["\U00010000", "\uffff", "\u00e9", "z", "Z", ""]
    found = serve(Contest(Clock(), Strides({}), names), len(names))
    assert found == ["", "Z", "z", "\u00e9", "\uffff", "\U00010000"]


def test_ticks_are_whole_numbers_of_the_common_scale() -> None:
    strides = Strides({"": 1, "a": 997, "b": 991, "c": 983})
    assert strides.scale == 997 * 991 * 983
    assert [strides.of(name) for name in ("", "a", "unknown")] == [
        strides.scale,
        991 * 983,
        strides.scale,
    ]
    _found, clock = grants({"": 1, "a": 997, "b": 991, "c": 983}, list("abc"), 5_000)
    assert all(type(value) is int for value in (clock.v, *clock.passes.values()))


def test_the_widest_weights_stay_exact() -> None:
    """The scale of a thousand different weights is far beyond a machine word."""
    weights = {"": 1, **{f"k{n}": n for n in range(2, 1_001)}}
    assert Strides(weights).scale == lcm(*range(1, 1_001))
    contest = Contest(Clock(), Strides(weights), ["k1000", "k500", "k250"])
    assert Counter(serve(contest, 1_750)) == {"k1000": 1_000, "k500": 500, "k250": 250}


def test_a_contest_leaves_the_clock_it_began_with_alone() -> None:
    clock = Clock(3, {"a": 5}, frozenset({"a"}))
    serve(Contest(clock, Strides({}), ["a", "b"]), 5)
    assert clock == Clock(3, {"a": 5}, frozenset({"a"}))


def test_nobody_competes_in_an_empty_contest() -> None:
    contest = Contest(Clock(), Strides({}), [])
    assert contest.leader() is None
    with pytest.raises(ValueError, match="nobody"):
        contest.serve()


def test_the_last_grant_s_eligible_set_is_the_active_one() -> None:
    """Who became ineligible through that grant was eligible at it."""
    contest = Contest(Clock(), Strides({}), ["a", "b", "c"])
    serve(contest, 1)
    contest.withdraw("a")
    assert contest.clock().active == {"a", "b", "c"}
    serve(contest, 1)
    contest.withdraw("b")
    contest.withdraw("unknown")
    assert contest.clock().active == {"b", "c"}
    assert contest.size == 1


weight_maps = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 1_000), max_size=6)
moments = st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=60)


@given(weight_maps, moments)
def test_every_grant_is_the_textbook_s(weights: dict[str, int], eligible: list[set[str]]) -> None:
    siblings, clock, strides = Siblings(weights), Clock(), Strides(weights)
    for names in eligible:
        contest = Contest(clock, strides, names)
        assert serve(contest, 1) == [siblings.pick(sorted(names))]
        clock = contest.clock()


@given(weight_maps, moments)
def test_one_long_contest_is_many_short_ones(
    weights: dict[str, int], leaving: list[set[str]]
) -> None:
    names = set("abcdef")
    long, clock = Contest(Clock(), Strides(weights), names), Clock()
    for gone in leaving:
        short = Contest(clock, Strides(weights), names)
        assert short.standing() == long.standing()
        assert serve(long, 1) == serve(short, 1)
        clock = short.clock()
        assert clock == long.clock()
        if len(names - gone) > 0:
            names -= gone
            for name in gone:
                long.withdraw(name)


@given(st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 12), min_size=2), st.data())
def test_no_backlogged_sibling_strays_far_from_its_share(
    weights: dict[str, int], chance: st.DataObject
) -> None:
    count = chance.draw(st.integers(1, 300))
    served = Counter(serve(Contest(Clock(), Strides(weights), list(weights)), count))
    total = sum(weights.values())
    for name, weight in weights.items():
        assert abs(served[name] - count * weight / total) <= 3


@given(weight_maps, st.integers(0, 200))
def test_whoever_stays_is_served_within_a_bounded_wait(
    weights: dict[str, int], before: int
) -> None:
    names = list("abcdef")
    _found, clock = grants(weights, names[:-1], before)
    # Everyone's grants in one of its own strides, and one for each tie.
    own = weights.get("f", 1)
    bound = sum(-(-weights.get(name, 1) // own) + 1 for name in names[:-1]) + 1
    found, _clock = grants(weights, names, bound, clock)
    assert "f" in found
