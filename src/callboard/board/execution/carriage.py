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
    CONTROLS,
    NOTES,
    OWN,
    Descriptor,
    Entry,
    prepared_ref,
    refs_of,
)
from callboard.board.outputs.prepared import read_prepared
from callboard.board.protocol.commit import Assignment
from callboard.board.storage.remote_refs import RemoteRefs
from callboard.errors import CallboardError
from callboard.validate import parse

_PINS = "refs/callboard/pins/"
_INPUTS = "refs/callboard/inputs/"
_OURS = (ARTIFACTS, NOTES, CONTROLS, OWN, BRANCHES + BRANCH_FOLDER)


class Carriage:
    """Carries for one site. Without a remote every method returns at once."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._asked: dict[str, str | None] = {}

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
        for entry in prepared.outputs:
            for name, oid in refs_of(entry).items():
                kept = oid or repository.read_ref(name)
                if kept is not None:
                    refs[name] = kept
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
        names = [name for entry in prepared.outputs for name in refs_of(entry) if _is_ours(name)]
        self._refs.bring({name: name for name in names})

    # --- what a run needs ----------------------------------------------------------------------

    def bring_inputs(self, assignment: Assignment) -> None:
        """Bring what the predecessors delivered and this clone lacks.

        Raises `input_unavailable` where the remote does not have it either.
        """
        if self._refs is None:
            return
        repository = self._site.repository
        lacking = {
            ref: oid
            for claim in assignment.claims
            for reference in claim.result_refs
            for entry in _entries(reference.descriptor)
            for ref, oid in refs_of(entry).items()
            if oid is not None and _is_ours(ref) and not repository.holds(oid)
        }
        if not lacking:
            return
        self._refs.bring({ref: _kept_as(ref, oid) for ref, oid in lacking.items()})
        for ref, oid in lacking.items():
            if not repository.holds(oid):
                raise CallboardError(
                    "input_unavailable",
                    f"{ref}, which a predecessor delivered, is neither here nor on the remote as "
                    "it was",
                    f"on a machine that has it: git push REMOTE {oid}:{ref}",
                    {"ref": ref, "object": oid},
                )

    def bring_commit(self, commit: str) -> bool:
        """Whether a commit that a profile pins is here, brought from the remote if need be."""
        repository = self._site.repository
        if self._refs is None or repository.holds(commit):
            return repository.holds(commit)
        return self._refs.bring_commit(commit, _PINS + commit)

    def lacking(self, pool: str) -> dict[str, str]:
        """The pool's workers with ready Work that cannot run here: name -> the commit it needs.

        A commit that could not be had is asked for again once the board has moved on.
        """
        if self._site.remote is None:
            return {}
        projection = self._site.publisher.known().projection
        state = projection.pool_state(pool)
        found: dict[str, str] = {}
        for lane in state.frontier.open_lanes():
            ref = lane.profile_on(state.routes[lane.profile]).ref
            if self._asked.get(ref) != projection.tip and self.bring_commit(ref):
                continue
            self._asked[ref] = projection.tip
            found[lane.profile] = ref
        return found

    def unavailable(self, pool: str, name: str, ref: str) -> CallboardError:
        """The refusal to grant what only a worker could take whose commit is not here."""
        remote = "origin" if self._site.remote is None else self._site.remote.name
        return CallboardError(
            "worker_unavailable",
            f"worker {name!r} is pinned at commit {ref[:12]}, which is neither here nor on a "
            f"branch of the remote {remote!r}",
            f"git fetch {remote}; where that does not bring it, on the machine that has it: "
            f"git push {remote} BRANCH",
            {"pool": pool, "profile": name, "ref": ref, "remote": remote},
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


def _is_ours(ref: str) -> bool:
    """Whether a ref is of the kind that we make; no other is ever fetched."""
    return ref.startswith(_OURS)


def _kept_as(ref: str, oid: str) -> str:
    """The ref here that keeps an input: a branch of another machine becomes none of this clone."""
    return _INPUTS + oid if ref.startswith(BRANCHES) else ref
