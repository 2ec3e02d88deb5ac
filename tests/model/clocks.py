"""Fair selection among siblings, in exact fractions.

A clock is `{"v", "pass", "active"}`; one step of a sibling of weight w costs 1/w. The wire counts
whole ticks instead: a fraction times the least common multiple of all configured weights. Nothing
here changes a clock in place, so a selection that is not kept costs nothing.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

Clock = dict[str, Any]


def fresh_clock() -> Clock:
    """The clock of a sibling set that has never been served."""
    return {"v": Fraction(0), "pass": {}, "active": {}}


def by_number(name: int) -> Any:
    """Tie order of priority classes."""
    return name


def by_bytes(name: str) -> Any:
    """Tie order of accounting keys."""
    return name.encode("utf-8")


def pick(
    clock: Clock,
    weights: Mapping[Any, int],
    eligible: Iterable[Any],
    order: Callable[[Any], Any],
) -> tuple[Any, Clock]:
    """The next sibling to serve and the clock after serving it; (None, same clock) when empty."""
    names = list(eligible)
    if not names:
        return None, clock
    passes = dict(clock["pass"])
    for name in names:
        if name not in clock["active"]:
            earned = passes.get(name, Fraction(0))
            passes[name] = max(earned, clock["v"] + Fraction(1, weights[name]))
    winner = names[0]
    for name in names:
        if (passes[name], order(name)) < (passes[winner], order(winner)):
            winner = name
    now = passes[winner]
    passes[winner] = now + Fraction(1, weights[winner])
    return winner, {"v": now, "pass": passes, "active": dict.fromkeys(names, True)}


def ticks(value: Fraction, weights: Iterable[int]) -> str:
    """A fraction as the whole number of ticks the wire shows."""
    scaled = value * math.lcm(*weights)
    if scaled.denominator != 1:
        raise AssertionError(f"{value} is no whole number of ticks")
    return str(scaled.numerator)


def shown(clock: Clock, weights: Iterable[int]) -> dict[str, Any]:
    """A clock as the state document writes it."""
    scale = list(weights)
    return {
        "v": ticks(clock["v"], scale),
        "pass": {str(name): ticks(value, scale) for name, value in clock["pass"].items()},
        "active": {str(name): True for name in clock["active"]},
    }
