"""A commit becomes a branch of its Claim: created once, never moved, never one of the user's."""

from __future__ import annotations

from callboard.board.outputs.descriptor import BRANCHES
from callboard.board.outputs.handlers.unverified import unverified
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError


def check_branch_free(repository: Repository, branch: str, commit: str) -> None:
    """Refuse with `branch_taken` a branch that is elsewhere, or beside another it cannot stand."""
    _check_at(repository, branch, commit)
    other = repository.ref_in_the_way(BRANCHES + branch)
    if other is not None:
        raise CallboardError(
            "branch_taken",
            f"the branch {branch!r} cannot stand beside {other!r}",
            f"rename {other!r}: git branch -m",
            {"branch": branch, "existing": other},
        )


def create_branch(repository: Repository, branch: str, commit: str) -> None:
    """Create the branch, unless it already is at this very commit."""
    if not repository.set_ref(BRANCHES + branch, None, commit):
        _check_at(repository, branch, commit)


def verify_branch(repository: Repository, branch: str, commit: str) -> None:
    """Read the branch, or refuse with `output_unverified`."""
    found = repository.read_ref(BRANCHES + branch)
    if found != commit:
        raise unverified(
            f"the branch {branch!r}", f"is at {found}, not {commit}" if found else "does not exist"
        )


def _check_at(repository: Repository, branch: str, commit: str) -> None:
    found = repository.read_ref(BRANCHES + branch)
    if found not in (None, commit):
        raise CallboardError(
            "branch_taken",
            f"the branch {branch!r} is at {found}, not {commit}",
            "a standing branch is never moved; rename or delete it, then retry",
            {"branch": branch, "found": found},
        )
