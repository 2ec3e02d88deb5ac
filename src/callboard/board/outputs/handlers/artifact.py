"""Artifacts: a file becomes a blob in the repository, kept by a ref of its Claim.

Source: wire-v3 §10 (Outputs). A ref that stands is never moved.
"""

from __future__ import annotations

from callboard.board.outputs.authority import EffectContext, Place
from callboard.board.outputs.claims import ArtifactOutput, Output
from callboard.board.outputs.descriptor import ArtifactEntry, Entry, artifact_ref
from callboard.board.outputs.handlers.kept import body_of, check_free, keep, read_kept
from callboard.board.outputs.handlers.unverified import unverified
from callboard.board.outputs.resources import Target


class ArtifactHandler:
    """The output type `artifact`."""

    type = "artifact"

    def foresee(self, context: EffectContext, output: Output) -> Target:
        """The artifact's ref."""
        assert isinstance(output, ArtifactOutput)
        ref = artifact_ref(context.place.claim_id, output.name)
        return Target(repository=context.repository_name, ref=ref)

    def prepare(self, context: EffectContext, output: Output) -> ArtifactEntry:
        """Store the bytes as a blob, which no ref keeps yet."""
        assert isinstance(output, ArtifactOutput)
        ref = artifact_ref(context.place.claim_id, output.name)
        blob = context.repository.write_blob(body_of(output))
        check_free(context.repository, ref, blob, code="artifact_conflict")
        return ArtifactEntry(
            name=output.name,
            ref=ref,
            blob=blob,
            sha256=output.sha256,
            size_bytes=output.size_bytes,
        )

    def scope(self, context: EffectContext, entry: Entry) -> Target:
        """The artifact's ref."""
        assert isinstance(entry, ArtifactEntry)
        return Target(repository=context.repository_name, ref=entry.ref)

    def apply(self, place: Place, entry: Entry) -> None:
        """Set the ref, unless it already keeps this very blob."""
        assert isinstance(entry, ArtifactEntry)
        self._check_name(place, entry)
        keep(place.repository, entry.ref, entry.blob, code="artifact_conflict")

    def verify(self, place: Place, entry: Entry) -> None:
        """Read the ref, and the blob's size and digest from its bytes."""
        assert isinstance(entry, ArtifactEntry)
        self._check_name(place, entry)
        read_kept(place.repository, entry.ref, entry.blob, entry.sha256, entry.size_bytes)

    def _check_name(self, place: Place, entry: ArtifactEntry) -> None:
        if entry.ref != artifact_ref(place.claim_id, entry.name):
            raise unverified(f"the artifact {entry.name!r}", f"names a foreign ref, {entry.ref}")
