"""Notes: a comment on the Claim's node, kept as a blob under a ref of the Claim.

Source: specification 1, §7.14. A ref that stands is never moved.
"""

from __future__ import annotations

from callboard.board.outputs.authority import EffectContext, Place
from callboard.board.outputs.bodies import check_text
from callboard.board.outputs.claims import BodyOutput, Output
from callboard.board.outputs.descriptor import (
    NOTES,
    Entry,
    NoteEntry,
    note_entry,
    number_in,
    numbered_ref,
)
from callboard.board.outputs.handlers.kept import body_of, check_free, keep, read_kept
from callboard.board.outputs.handlers.unverified import unverified
from callboard.board.outputs.resources import Target


class NoteHandler:
    """The output type `note`."""

    type = "note"

    def foresee(self, context: EffectContext, output: Output) -> Target:
        """The note's ref."""
        assert isinstance(output, BodyOutput)
        ref = numbered_ref(NOTES, context.place.claim_id, "note", output.number)
        return Target(repository=context.repository_name, ref=ref)

    def prepare(self, context: EffectContext, output: Output) -> NoteEntry:
        """Store the text as a blob, which no ref keeps yet."""
        assert isinstance(output, BodyOutput)
        data = body_of(output)
        check_text(data)
        entry = note_entry(context.place.claim_id, output, context.repository.write_blob(data))
        check_free(context.repository, entry.ref, entry.blob)
        return entry

    def scope(self, context: EffectContext, entry: Entry) -> Target:
        """The note's ref."""
        assert isinstance(entry, NoteEntry)
        return Target(repository=context.repository_name, ref=entry.ref)

    def apply(self, place: Place, entry: Entry) -> None:
        """Set the ref, unless it already keeps this very blob."""
        assert isinstance(entry, NoteEntry)
        self._check_ref(place, entry)
        keep(place.repository, entry.ref, entry.blob)

    def verify(self, place: Place, entry: Entry) -> None:
        """Read the ref, and the text's size and digest from its bytes."""
        assert isinstance(entry, NoteEntry)
        self._check_ref(place, entry)
        read_kept(place.repository, entry.ref, entry.blob, entry.sha256, entry.size_bytes)

    def _check_ref(self, place: Place, entry: NoteEntry) -> None:
        if entry.ref != numbered_ref(NOTES, place.claim_id, "note", number_in(entry.ref)):
            raise unverified("a note", f"names a foreign ref, {entry.ref}")
