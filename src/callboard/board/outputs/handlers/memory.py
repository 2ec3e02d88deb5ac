"""Memories: a JSON file in a commit upon a fixed base, on a branch of its Claim.

Source: specification 1, §9.1; §7.14. Path, base and name of the branch are those of the worker's
recipe, never the worker's own words. A memory is data for whoever reads it next; nothing here ever
reads one to decide anything.
"""

from __future__ import annotations

from callboard import canonical
from callboard.board.outputs.authority import EffectContext, Place
from callboard.board.outputs.claims import BodyOutput, Output
from callboard.board.outputs.descriptor import BRANCHES, Entry, MemoryEntry, memory_branch
from callboard.board.outputs.handlers.branches import (
    check_branch_free,
    create_branch,
    verify_branch,
)
from callboard.board.outputs.handlers.kept import body_of, read_proven
from callboard.board.outputs.handlers.unverified import unverified
from callboard.board.outputs.memory_body import check_memory, memory_bytes
from callboard.board.outputs.resources import Target
from callboard.board.protocol.memory_rules import MemoryRules
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError

_FILE_MODE = 0o100644


class MemoryHandler:
    """The output type `memory`."""

    type = "memory"

    def foresee(self, context: EffectContext, output: Output) -> Target | None:
        """The file on its branch; None where the recipe declares none, which preparing refuses."""
        place = context.place
        if place.memory is None:
            return None
        branch = memory_branch(place.memory.branch, place.work_id, place.attempt)
        path = place.memory.path
        return Target(repository=context.repository_name, ref=BRANCHES + branch, path=path)

    def prepare(self, context: EffectContext, output: Output) -> MemoryEntry:
        """Judge the body once more, and store blob, trees and commit, which no ref keeps yet."""
        assert isinstance(output, BodyOutput)
        place = context.place
        rules = place.memory
        if rules is None:
            raise CallboardError(
                "output_not_declared",
                f"the worker's recipe declares no memory for Claim {place.claim_id}",
                "declare it in the recipe, under [memory]",
                {"type": self.type},
            )
        body = body_of(output)
        check_memory(body, rules.schema, rules.path, place.work_id)
        data = memory_bytes(body)
        base = check_base(place.repository, rules, place.base)
        made, commit, blob = place.repository.graft_file(
            base,
            rules.path,
            data,
            message=f"Remember {rules.path}\n\nWork: {place.work_id}\nClaim: {place.claim_id}\n",
            # The grant's time: prepared again, it is the very same commit.
            at_ms=context.granted_at_ms,
        )
        entry = MemoryEntry(
            branch=memory_branch(rules.branch, place.work_id, place.attempt),
            path=rules.path,
            commit=commit,
            tree=made.tree,
            parent=base,
            blob=blob,
            sha256=canonical.sha256_hex(data),
            size_bytes=len(data),
        )
        check_branch_free(place.repository, entry.branch, entry.commit)
        return entry

    def scope(self, context: EffectContext, entry: Entry) -> Target:
        """The file on its branch."""
        assert isinstance(entry, MemoryEntry)
        return Target(
            repository=context.repository_name, ref=BRANCHES + entry.branch, path=entry.path
        )

    def apply(self, place: Place, entry: Entry) -> None:
        """Create the branch, unless it already is at this very commit."""
        assert isinstance(entry, MemoryEntry)
        self._check_commit(place, entry)
        create_branch(place.repository, entry.branch, entry.commit)

    def verify(self, place: Place, entry: Entry) -> None:
        """Read branch, commit, tree and blob, each from its own object."""
        assert isinstance(entry, MemoryEntry)
        self._check_commit(place, entry)
        verify_branch(place.repository, entry.branch, entry.commit)

    def _check_commit(self, place: Place, entry: MemoryEntry) -> None:
        """A commit upon the declared base that changes the declared file alone."""
        what = f"the memory in commit {entry.commit}"
        rules = place.memory
        if rules is None:
            raise unverified(what, "is of a worker whose recipe declares none, or is not here")
        branch = memory_branch(rules.branch, place.work_id, place.attempt)
        if (entry.branch, entry.path) != (branch, rules.path):
            raise unverified(what, f"is meant for {entry.path!r} on {entry.branch!r}, not its own")
        base = rules.base or place.base
        found = place.repository.commit_info(entry.commit)
        if found.parents != (base,) or entry.parent != base:
            raise unverified(
                what, f"stands on {', '.join(found.parents) or 'nothing'}, not on {base}"
            )
        if found.tree != entry.tree:
            raise unverified(what, f"has the tree {found.tree}, not {entry.tree}")
        file = place.repository.sole_difference(base, entry.commit, entry.path)
        if file is None:
            raise unverified(what, f"changes more than {entry.path!r}, or lacks it")
        if (file.mode, file.oid) != (_FILE_MODE, entry.blob):
            raise unverified(what, f"has {file.oid}, mode {file.mode:o}, at {entry.path!r}")
        read_proven(place.repository, entry.blob, entry.sha256, entry.size_bytes)


def check_base(repository: Repository, rules: MemoryRules, began_at: str) -> str:
    """The commit that a memory stands upon, where a file can be at its path.

    `began_at` is the commit the run begins at. Raises `memory_base_missing` or `path_taken`.
    """
    base = rules.base or began_at
    if not repository.holds(base):
        raise CallboardError(
            "memory_base_missing",
            f"the repository lacks commit {base[:12]}, upon which memories are to stand",
            "fetch it, or name another base in the recipe, under [memory]",
            {"base": base},
        )
    repository.check_graft(base, rules.path)
    return base
