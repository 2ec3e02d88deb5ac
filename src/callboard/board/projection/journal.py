"""Undo for one commit: every change is noted, so that a refused commit leaves no trace.

It knows mappings, attributes and inverse calls, nothing of what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ABSENT = object()


class Journal:
    """Notes of the changes since the last `forget`, newest last."""

    def __init__(self) -> None:
        self._undo: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def put(self, mapping: MutableMapping[K, V], key: K, value: V) -> None:
        """`mapping[key] = value`, undoable."""
        old = mapping.get(key, _ABSENT)
        if old is _ABSENT:
            self._undo.append((mapping.pop, (key,)))
        else:
            self._undo.append((mapping.__setitem__, (key, old)))
        mapping[key] = value

    def assign(self, target: object, name: str, value: object) -> None:
        """`target.name = value`, undoable."""
        self._undo.append((setattr, (target, name, getattr(target, name))))
        setattr(target, name, value)

    def note(self, inverse: Callable[..., object], *arguments: object) -> None:
        """Remember the inverse of a change that the caller has just made."""
        self._undo.append((inverse, arguments))

    def forget(self) -> None:
        """Make the changes so far final."""
        self._undo.clear()

    def roll_back(self) -> None:
        """Take back every change since the last `forget`, newest first."""
        while self._undo:
            inverse, arguments = self._undo.pop()
            inverse(*arguments)
