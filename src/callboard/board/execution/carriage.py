"""What travels with a board on a remote: outputs to it, inputs and pinned commits from it.

Source: wire-v3 §10 (Outputs). Refs of ours are made there once and never moved; a branch of the
user's is never pushed. For a board of this repository there is nothing to carry, and it does
nothing.
"""

from __future__ import annotations

from functools import cached_property

from callboard.board.execution.site import Site
from callboard.board.outputs.descriptor import (
    ARTIFACTS,
    BRANCH_FOLDER,
    BRANCHES,
    ArtifactEntry,
    Descriptor,
    Entry,
    prepared_ref,
)
from callboard.board.outputs.prepared import read_prepared
from callboard.board.protocol.commit import Assignment
from callboard.board.protocol.validate import parse
from callboard.board.storage.remote_refs import RemoteRefs
from callboard.errors import CallboardError

_PINS = "refs/callboard/pins/"
_INPUTS = "refs/callboard/inputs/"


class Carriage:
    """Carries for one site. Without a remote every method returns at once."""

    def __init__(self, site: Site) -> None:
        self._site = site

    @cached_property
    def _refs(self) -> RemoteRefs | None:
        transport = self._site.transport
        return None if transport is None else RemoteRefs(self._site.repository, transport)

    # --- outputs -------------------------------------------------------------------------------

    def send_note(self, claim_id: str) -> None:
        """Put the note of what a Claim will deliver onto the remote, before its Completion.

        What the remote refuses it refuses here, while the Claim can still be tried again. Raises
        what `RemoteRefs.create` raises.
        """
        ref = prepared_ref(claim_id)
        note = self._site.repository.read_ref(ref)
        if self._refs is not None and note is not None:
            self._refs.create({ref: note})

    def send_outputs(self, claim_id: str) -> None:
        """Put a Claim's note and outputs onto the remote, before the Result that names them."""
        if self._refs is None:
            return
        repository = self._site.repository
        prepared = read_prepared(repository, claim_id)
        if prepared is None:
            return
        ref = prepared_ref(claim_id)
        refs = {ref: str(repository.read_ref(ref))}
        refs |= {_ref_of(entry): _object_of(entry) for entry in prepared.outputs}
        self._refs.create(refs)

    def bring_outputs(self, claim_id: str) -> None:
        """Bring what a run elsewhere prepared and delivered for a Claim, as far as it is there."""
        repository = self._site.repository
        ref = prepared_ref(claim_id)
        if self._refs is None or repository.read_ref(ref) is not None:
            return
        self._refs.bring({ref: ref})
        prepared = read_prepared(repository, claim_id)
        if prepared is None:
            return
        names = [_ref_of(entry) for entry in prepared.outputs if _is_ours(entry)]
        self._refs.bring({name: name for name in names})

    # --- what a run needs ----------------------------------------------------------------------

    def bring_inputs(self, assignment: Assignment) -> None:
        """Bring what the predecessors delivered and this clone lacks.

        Raises `input_unavailable` where the remote does not have it either.
        """
        if self._refs is None:
            return
        repository = self._site.repository
        lacking = [
            entry
            for claim in assignment.claims
            for reference in claim.result_refs
            for entry in _entries(reference.descriptor)
            if _is_ours(entry) and not repository.holds(_object_of(entry))
        ]
        if not lacking:
            return
        self._refs.bring({_ref_of(entry): _kept_as(entry) for entry in lacking})
        for entry in lacking:
            if not repository.holds(_object_of(entry)):
                raise CallboardError(
                    "input_unavailable",
                    f"{_ref_of(entry)}, which a predecessor delivered, is neither here nor on the "
                    "remote as it was",
                    "on a machine that has it: git push REMOTE "
                    f"{_object_of(entry)}:{_ref_of(entry)}",
                    {"ref": _ref_of(entry), "object": _object_of(entry)},
                )

    def bring_commit(self, commit: str) -> bool:
        """Whether a commit that a profile pins is here, brought from the remote if need be."""
        repository = self._site.repository
        if self._refs is None or repository.holds(commit):
            return repository.holds(commit)
        return self._refs.bring_commit(commit, _PINS + commit)

    def check_pool(self, pool: str) -> None:
        """Refuse with `worker_unavailable` to grant from a pool whose workers cannot run here."""
        if self._site.remote is None:
            return
        routes = self._site.publisher.refresh().projection.pool_state(pool).routes
        revisions = [
            (name, revision.profile)
            for name, route in sorted(routes.items())
            for _ref, revision in sorted(route.revisions.items())
            if revision.available
        ]
        for name, profile in revisions:
            if not self.bring_commit(profile.ref):
                remote = self._site.remote.name
                raise CallboardError(
                    "worker_unavailable",
                    f"worker {name!r} is pinned at commit {profile.ref[:12]}, which is neither "
                    f"here nor on a branch of the remote {remote!r}",
                    f"git fetch {remote}; where that does not bring it, on the machine that has "
                    f"it: git push {remote} BRANCH",
                    {"pool": pool, "profile": name, "ref": profile.ref, "remote": remote},
                )

    def check_pushed(self, commit: str) -> None:
        """Refuse with `commit_unpushed` to pin a commit that other machines could not fetch."""
        transport = self._site.transport
        if transport is None or transport.is_pushed(commit):
            return
        raise CallboardError(
            "commit_unpushed",
            f"the workers would be pinned at commit {commit[:12]}, which is on no branch of the "
            f"remote {transport.remote!r} as far as this clone knows",
            f"git push {transport.remote} HEAD",
            {"commit": commit, "remote": transport.remote},
        )


def _entries(descriptor: dict[str, object]) -> list[Entry]:
    """The outputs of a descriptor; none where a foreign writer described them otherwise."""
    try:
        return parse(Descriptor, descriptor, what="a Result", code="descriptor_invalid").outputs
    except CallboardError:
        return []


def _is_ours(entry: Entry) -> bool:
    """Whether the entry names a ref of the kind that we make; no other is ever fetched."""
    if isinstance(entry, ArtifactEntry):
        return entry.ref.startswith(ARTIFACTS)
    return entry.branch.startswith(BRANCH_FOLDER)


def _ref_of(entry: Entry) -> str:
    return entry.ref if isinstance(entry, ArtifactEntry) else BRANCHES + entry.branch


def _object_of(entry: Entry) -> str:
    return entry.blob if isinstance(entry, ArtifactEntry) else entry.commit


def _kept_as(entry: Entry) -> str:
    """The ref here that keeps an input: a branch of another machine becomes none of this clone."""
    return entry.ref if isinstance(entry, ArtifactEntry) else _INPUTS + entry.commit
