"""A process that is gone right behind one of its effects on the disk, as a kill would have it."""

from __future__ import annotations

from collections.abc import Callable

from callboard.layers.disk import Effect


class Killed(BaseException):
    """What a kill is to the machine: nothing of it runs any further."""


def killing(at: int, seen: list[tuple[str, str]] | None = None) -> Effect:
    """An observer that notes each effect, and is killed at number `at`, counted from 1."""
    count = iter(range(1, 1_000_000))

    def effect(step: str, place: str) -> None:
        if seen is not None:
            seen.append((step, place))
        if next(count) == at:
            raise Killed

    return effect


def killing_where(is_it: Callable[[str, str], bool]) -> Effect:
    """An observer that is killed at the first effect whose step and place are so."""

    def effect(step: str, place: str) -> None:
        if is_it(step, place):
            raise Killed

    return effect
