"""The rule of service in its textbook form: rational passes, one pick at a time, nothing clever.

For tests only, and independent of how the clocks under test are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction


class Siblings:
    """Passes of siblings; each pick is told who is eligible at that very moment."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._v = Fraction(0)
        self._passes: dict[str, Fraction] = {}
        self._active: set[str] = set()

    def pick(self, eligible: Collection[str]) -> str:
        """Serve one of the eligible siblings."""
        for name in eligible:
            if name not in self._active:
                entry = self._v + Fraction(1, self._weights.get(name, 1))
                self._passes[name] = max(self._passes.get(name, Fraction(0)), entry)
        self._active = set(eligible)
        winner = min(eligible, key=lambda name: (self._passes[name], name.encode()))
        self._v = self._passes[winner]
        self._passes[winner] += Fraction(1, self._weights.get(winner, 1))
        return winner


def order(
    items: Sequence[tuple[str, int, str]],
    class_weights: Sequence[int],
    key_weights: Mapping[str, int],
    *,
    strict: bool = False,
) -> Iterator[str]:
    """The names of `items` (name, class, key), as one grant after the other would serve them."""
    classes = Siblings({str(n): weight for n, weight in enumerate(class_weights, start=1)})
    keys = {str(n): Siblings(key_weights) for n in range(1, 6)}
    queues: dict[str, dict[str, list[str]]] = {}
    for name, priority, key in items:
        queues.setdefault(str(priority), {}).setdefault(key, []).append(name)
    while queues:
        chosen = min(queues) if strict else classes.pick(list(queues))
        members = queues[chosen]
        key = keys[chosen].pick(list(members))
        yield members[key].pop(0)
        if not members[key]:
            del members[key]
        if not members:
            del queues[chosen]
