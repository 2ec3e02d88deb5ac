"""Patches: a commit made from the run's work tree becomes a branch.

Source: wire-v3 §10 (Outputs). The commit is in the object store before it gets here; a branch that
stands is never moved.
"""

from __future__ import annotations

from callboard.board.outputs.authority import EffectContext, Place
from callboard.board.outputs.claims import Output, PatchOutput
from callboard.board.outputs.descriptor import BRANCHES, Entry, PatchEntry, patch_branch
from callboard.board.outputs.handlers.branches import (
    check_branch_free,
    create_branch,
    verify_branch,
)
from callboard.board.outputs.handlers.unverified import unverified
from callboard.board.outputs.resources import Target
from callboard.errors import CallboardError


class PatchHandler:
    """The output type `patch`."""

    type = "patch"

    def foresee(self, context: EffectContext, output: Output) -> Target:
        """The branch's ref."""
        branch = patch_branch(context.place.work_id, context.place.attempt)
        return Target(repository=context.repository_name, ref=BRANCHES + branch)

    def prepare(self, context: EffectContext, output: Output) -> PatchEntry:
        """Judge the commit and that its branch is free; no branch yet."""
        assert isinstance(output, PatchOutput)
        if output.commit is None:
            raise CallboardError(
                "patch_unavailable", "no commit was made of the work tree", "take it in again"
            )
        place = context.place
        entry = PatchEntry(
            branch=patch_branch(place.work_id, place.attempt),
            commit=output.commit.commit,
            tree=output.commit.tree,
            parent=output.commit.parent,
        )
        self._check_commit(place, entry)
        check_branch_free(place.repository, entry.branch, entry.commit)
        return entry

    def scope(self, context: EffectContext, entry: Entry) -> Target:
        """The branch's ref."""
        assert isinstance(entry, PatchEntry)
        return Target(repository=context.repository_name, ref=BRANCHES + entry.branch)

    def apply(self, place: Place, entry: Entry) -> None:
        """Create the branch, unless it already is at this very commit."""
        assert isinstance(entry, PatchEntry)
        self._check_commit(place, entry)
        create_branch(place.repository, entry.branch, entry.commit)

    def verify(self, place: Place, entry: Entry) -> None:
        """Read the branch, and the commit's tree and parent from the commit itself."""
        assert isinstance(entry, PatchEntry)
        self._check_commit(place, entry)
        verify_branch(place.repository, entry.branch, entry.commit)

    def _check_commit(self, place: Place, entry: PatchEntry) -> None:
        """A commit of the run's own base, with a tree of its own, on its own branch's name."""
        what = f"the commit {entry.commit}"
        if entry.branch != patch_branch(place.work_id, place.attempt):
            raise unverified(what, f"is meant for a foreign branch, {entry.branch!r}")
        found = place.repository.commit_info(entry.commit)
        if found.parents != (place.base,) or entry.parent != place.base:
            raise unverified(
                what, f"stands on {', '.join(found.parents) or 'nothing'}, not on {place.base}"
            )
        if found.tree != entry.tree:
            raise unverified(what, f"has the tree {found.tree}, not {entry.tree}")
        if found.tree == place.repository.commit_info(place.base).tree:
            raise CallboardError(
                "patch_empty",
                f"the commit {entry.commit} changes nothing",
                "deliver a patch that changes a file, or none",
            )
