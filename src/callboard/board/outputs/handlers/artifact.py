"""Artifacts: a file becomes a blob in the repository, kept by a ref of its Claim.

Source: wire-v3 §10 (Outputs). A ref that stands is never moved.
"""

from __future__ import annotations

from callboard import canonical
from callboard.board.outputs.authority import EffectContext, Place
from callboard.board.outputs.claims import ArtifactOutput, Output
from callboard.board.outputs.descriptor import ArtifactEntry, Entry, artifact_ref
from callboard.board.outputs.handlers.unverified import unverified
from callboard.board.outputs.resources import Target
from callboard.errors import CallboardError


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
        data = output.data
        if data is None or canonical.sha256_hex(data) != output.sha256:
            raise CallboardError(
                "artifact_changed",
                f"the bytes of {output.name!r} are not those that were announced",
                "take the run's outputs in again",
            )
        ref = artifact_ref(context.place.claim_id, output.name)
        blob = context.repository.write_blob(data)
        self._check_free(context.place, ref, blob)
        other = context.repository.ref_in_the_way(ref)
        if other is not None:
            raise CallboardError(
                "artifact_conflict",
                f"the ref {ref} cannot stand beside {other!r}",
                f"leave refs/callboard/ to Callboard: git update-ref -d {other}",
                {"ref": ref, "found": other},
            )
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
        if not place.repository.set_ref(entry.ref, None, entry.blob):
            self._check_free(place, entry.ref, entry.blob)

    def verify(self, place: Place, entry: Entry) -> None:
        """Read the ref, and the blob's size and digest from its bytes."""
        assert isinstance(entry, ArtifactEntry)
        self._check_name(place, entry)
        found = place.repository.read_ref(entry.ref)
        if found != entry.blob:
            raise unverified(f"the ref {entry.ref}", f"holds {found or 'nothing'}")
        data = place.repository.read_blob(entry.blob, entry.size_bytes)
        if len(data) != entry.size_bytes or canonical.sha256_hex(data) != entry.sha256:
            raise unverified(f"the artifact {entry.name!r}", "has other bytes than it should")

    def _check_free(self, place: Place, ref: str, blob: str) -> None:
        found = place.repository.read_ref(ref)
        if found not in (None, blob):
            raise CallboardError(
                "artifact_conflict",
                f"the ref {ref} holds {found}, not {blob}",
                "artifacts are never replaced; leave refs/callboard/ to Callboard",
                {"ref": ref, "found": found},
            )

    def _check_name(self, place: Place, entry: ArtifactEntry) -> None:
        if entry.ref != artifact_ref(place.claim_id, entry.name):
            raise unverified(f"the artifact {entry.name!r}", f"names a foreign ref, {entry.ref}")
