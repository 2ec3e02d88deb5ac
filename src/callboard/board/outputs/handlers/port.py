"""What every output type answers to.

A handler knows its own type only. It must never choose where it writes: names follow from the
Claim; and whoever calls it is the gate.
"""

from __future__ import annotations

from typing import Protocol

from callboard.board.outputs.authority import EffectContext, Place
from callboard.board.outputs.claims import Output
from callboard.board.outputs.descriptor import Entry
from callboard.board.outputs.resources import Target


class Handler(Protocol):
    """One output type. Every method raises `CallboardError` and leaves no half effect."""

    @property
    def type(self) -> str:
        """The output type's name, as contracts and recipes say it."""
        ...

    def foresee(self, context: EffectContext, output: Output) -> Target | None:
        """What the effect of `output` would touch, told before anything of it is stored; None where
        only preparing it tells."""
        ...

    def prepare(self, context: EffectContext, output: Output) -> Entry:
        """Make durable what the effect needs, judge that it could happen; no effect yet."""
        ...

    def scope(self, context: EffectContext, entry: Entry) -> Target | None:
        """What the effect of `entry` touches; None only where it has none."""
        ...

    def apply(self, place: Place, entry: Entry) -> None:
        """Have the effect; again with the same entry it changes nothing."""
        ...

    def verify(self, place: Place, entry: Entry) -> None:
        """Read the effect back from Git alone; `output_unverified` where it is not as said."""
        ...
