"""Bytes kept as a blob under a ref of their Claim: written once, read back, never moved."""

from __future__ import annotations

from callboard import canonical
from callboard.board.outputs.claims import ArtifactOutput, BodyOutput
from callboard.board.outputs.handlers.unverified import unverified
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError


def body_of(output: ArtifactOutput | BodyOutput) -> bytes:
    """The bytes of an output, once more held against their digest."""
    if output.data is None or canonical.sha256_hex(output.data) != output.sha256:
        which = repr(output.name) if isinstance(output, ArtifactOutput) else f"this {output.type}"
        raise CallboardError(
            "artifact_changed",
            f"the bytes of {which} are not those that were announced",
            "take the run's outputs in again",
        )
    return output.data


def check_free(repository: Repository, ref: str, blob: str, *, code: str = "ref_conflict") -> None:
    """Refuse with `code` a ref that keeps something else, or cannot be made."""
    found = repository.read_ref(ref)
    rival = None if found is not None else repository.ref_in_the_way(ref)
    if rival is not None:
        raise CallboardError(
            code,
            f"the ref {ref} cannot stand beside {rival!r}",
            f"leave refs/callboard/ to Callboard: git update-ref -d {rival}",
            {"ref": ref, "found": rival},
        )
    if found not in (None, blob):
        raise CallboardError(
            code,
            f"the ref {ref} holds {found}, not {blob}",
            "what was delivered is never replaced; leave refs/callboard/ to Callboard",
            {"ref": ref, "found": found},
        )


def keep(repository: Repository, ref: str, blob: str, *, code: str = "ref_conflict") -> None:
    """Set the ref, unless it keeps this very blob already; else refuse as `check_free`."""
    if not repository.set_ref(ref, None, blob):
        check_free(repository, ref, blob, code=code)


def read_kept(repository: Repository, ref: str, blob: str, sha256: str, size_bytes: int) -> bytes:
    """The bytes under a ref, or `output_unverified` where they are not those."""
    found = repository.read_ref(ref)
    if found != blob:
        raise unverified(f"the ref {ref}", f"holds {found or 'nothing'}")
    return read_proven(repository, blob, sha256, size_bytes)


def read_proven(repository: Repository, blob: str, sha256: str, size_bytes: int) -> bytes:
    """The bytes of a blob, or `output_unverified` where size or digest are others."""
    data = repository.read_blob(blob, size_bytes)
    if len(data) != size_bytes or canonical.sha256_hex(data) != sha256:
        raise unverified(f"the object {blob}", "has other bytes than it should")
    return data
