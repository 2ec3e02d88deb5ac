"""Undo for one commit: every change is noted, so that a refused commit leaves no trace.

It knows mappings, kept objects and inverse calls, nothing of what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ABSENT = object()


class Kept:
    """An object whose `FIELDS` (two or more) come back when a commit is undone."""

    FIELDS: ClassVar[tuple[str, ...]]
    _read: ClassVar[Callable[[Any], tuple[Any, ...]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._read = attrgetter(*cls.FIELDS)

    def saved(self) -> tuple[Any, ...]:
        """The present values of the fields."""
        return type(self)._read(self)

    def restore(self, values: tuple[Any, ...]) -> None:
        """Take saved values back."""
        for name, value in zip(self.FIELDS, values, strict=True):
            setattr(self, name, value)


class Journal:
    """Notes of the changes since the last `forget`, newest last."""

    def __init__(self) -> None:
        self._undo: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._kept: set[int] = set()

    def put(self, mapping: MutableMapping[K, V], key: K, value: V) -> None:
        """`mapping[key] = value`, undoable."""
        old = mapping.get(key, _ABSENT)
        if old is _ABSENT:
            self._undo.append((mapping.pop, (key,)))
        else:
            self._undo.append((mapping.__setitem__, (key, old)))
        mapping[key] = value

    def keep(self, target: Kept) -> None:
        """Make later changes of the target's fields undoable; cheap where it is kept already."""
        if id(target) not in self._kept:
            self._kept.add(id(target))
            self._undo.append((target.restore, (target.saved(),)))

    def note(self, inverse: Callable[..., object], *arguments: object) -> None:
        """Remember the inverse of a change that the caller has just made."""
        self._undo.append((inverse, arguments))

    def forget(self) -> None:
        """Make the changes so far final."""
        self._undo.clear()
        self._kept.clear()

    def roll_back(self) -> None:
        """Take back every change since the last `forget`, newest first."""
        while self._undo:
            inverse, arguments = self._undo.pop()
            inverse(*arguments)
        self._kept.clear()


class NoJournal(Journal):
    """Takes no notes: for reading a whole history that is thrown away where it is refused."""

    def put(self, mapping: MutableMapping[K, V], key: K, value: V) -> None:
        """`mapping[key] = value`."""
        mapping[key] = value

    def keep(self, target: Kept) -> None:
        """Nothing to keep."""

    def note(self, inverse: Callable[..., object], *arguments: object) -> None:
        """Nothing to remember."""

    def forget(self) -> None:
        """Nothing is remembered."""
