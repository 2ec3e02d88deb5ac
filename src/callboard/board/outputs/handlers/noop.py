"""No-ops: word that nothing was to be done, without any effect that could be read back."""

from __future__ import annotations

from callboard.board.outputs.authority import EffectContext, Place
from callboard.board.outputs.claims import NoopOutput, Output
from callboard.board.outputs.descriptor import Entry, NoopEntry


class NoopHandler:
    """The output type `noop`."""

    type = "noop"

    def foresee(self, context: EffectContext, output: Output) -> None:
        """Nothing is touched."""
        return

    def prepare(self, context: EffectContext, output: Output) -> NoopEntry:
        """Keep the reason."""
        assert isinstance(output, NoopOutput)
        return NoopEntry(reason=output.reason)

    def scope(self, context: EffectContext, entry: Entry) -> None:
        """Nothing is touched."""
        return

    def apply(self, place: Place, entry: Entry) -> None:
        """Do nothing."""
        assert isinstance(entry, NoopEntry)

    def verify(self, place: Place, entry: Entry) -> None:
        """The note of what was prepared is all there is."""
        assert isinstance(entry, NoopEntry)
