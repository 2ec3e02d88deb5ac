"""Removing a run's workspace, never its work: what is nowhere else stops it.

Work is what the work tree and the clone's refs hold beyond the commit the run began at, as far as
no branch, tag or other ref of the user's repository has the same content at its tip.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from callboard.board.execution.blind_spots import blind_spots
from callboard.board.execution.snapshot import changes_between, tree_of
from callboard.board.execution.workspace import (
    Workspace,
    borrow_objects,
    discard,
    disk_faults,
    remove_tree,
)
from callboard.errors import CallboardError
from callboard.files import read_bounded
from callboard.git import Git

_MAX_TIPS = 500
_MAX_CLONE_REFS = 1_000
_REF_FILE_BYTES = 4_096
_PACKED_REFS_BYTES = 4 * 1024 * 1024
_SHOWN = 20
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Unsaved:
    """What is in a workspace and nowhere else: changed paths, and commits its refs point to.

    `unreadable` says why something could not be judged, which counts as unsaved.
    """

    paths: tuple[str, ...]
    commits: tuple[str, ...]
    unreadable: str | None

    @property
    def summary(self) -> str:
        """What a message says of it, after the workspace's name."""
        if self.unreadable is not None:
            return f"may hold work, as it cannot be judged: {self.unreadable}"
        return (
            f"holds {len(self.paths)} changed paths and {len(self.commits)} commits that are "
            "nowhere else"
        )

    def document(self) -> dict[str, object]:
        """The JSON form, with the first 20 of each kind and the counts."""
        shown = [
            path.encode("utf-8", "backslashreplace").decode("utf-8") for path in self.paths[:_SHOWN]
        ]
        return {
            "paths": shown,
            "path_count": len(self.paths),
            "commits": list(self.commits[:_SHOWN]),
            "commit_count": len(self.commits),
            "unreadable": self.unreadable,
        }


def dispose(git: Git, workspace: Workspace, *, scratch: Path, discard_work: bool = False) -> None:
    """Remove the workspace; nothing where it is gone already.

    `scratch` is an existing folder outside it for temporary files. Raises `workspace_unsaved`,
    with what would be lost in the details, unless `discard_work`; `workspace_failed` where the
    folder cannot be reached or removed.
    """
    with disk_faults(workspace.folder):
        # Where the folders above it have lost their rights this is a fault, never "gone".
        there = workspace.folder.exists()
    if there and not discard_work:
        found = unsaved(git, workspace, scratch=scratch)
        if found is not None:
            raise CallboardError(
                "workspace_unsaved",
                f"the workspace {str(workspace.folder)!r} {found.summary}",
                "it is kept; copy from it what you want, then remove it yourself",
                found.document() | {"folder": str(workspace.folder)},
            )
    discard(workspace)


def unsaved(git: Git, workspace: Workspace, *, scratch: Path) -> Unsaved | None:
    """What would be lost with the workspace; None where nothing would.

    Ignored files are not work. The user's repository is only read.
    """
    trusted = scratch / f"judge-{secrets.token_hex(8)}"
    try:
        with disk_faults(scratch):
            return _judge(git, workspace, trusted)
    except CallboardError as error:
        return Unsaved((), (), f"{error.code}: {error.message}")
    finally:
        remove_tree(trusted)


def _judge(git: Git, workspace: Workspace, trusted: Path) -> Unsaved | None:
    tree = tree_of(git, workspace, trusted=trusted, base=workspace.commit)
    tips = _source_tips(git, workspace.source)
    # Only now, as the tree above must not be made from objects the worker could have written.
    borrow_objects(trusted, workspace.source, workspace.git_dir)
    paths = _nowhere(git, trusted, workspace.commit, tree, tips)
    commits = [
        commit
        for commit in _own_commits(git, workspace, trusted, tips)
        if _nowhere(git, trusted, workspace.commit, commit, tips)
    ]
    return Unsaved(paths, tuple(commits), None) if paths or commits else None


def _nowhere(git: Git, git_dir: Path, base: str, content: str, tips: list[str]) -> tuple[str, ...]:
    """The paths in which `content` differs from `base`, unless some tip has all of them alike."""
    wanted = {change.path for change in changes_between(git, git_dir, base, content)}
    if not wanted:
        return ()
    for tip in tips:
        differing = {change.path for change in changes_between(git, git_dir, tip, content)}
        if not wanted & differing:
            return ()
    return tuple(sorted(wanted))


def _source_tips(git: Git, source: Path) -> list[str]:
    """The commits that refs of the user's repository point to, the newest first."""
    answer = git.run(["rev-list", "--no-walk", "--all", f"--max-count={_MAX_TIPS}"], git_dir=source)
    return answer.output.decode("ascii").split()


def _own_commits(git: Git, workspace: Workspace, trusted: Path, tips: list[str]) -> list[str]:
    """The commits that refs of the clone point to and no ref of the user's repository reaches."""
    pointed = {commit for commit in _clone_refs(workspace.git_dir) if commit != workspace.commit}
    if not pointed:
        return []
    known = "".join(f"^{tip}\n" for tip in (*tips, workspace.commit))
    own = []
    for commit in sorted(pointed):
        answer = git.run(
            ["rev-list", "--max-count=1", "--stdin"],
            git_dir=trusted,
            stdin=f"{commit}\n{known}".encode("ascii"),
        )
        if answer.output:
            own.append(commit)
    return own


def _clone_refs(git_dir: Path) -> Iterator[str]:
    """The ids in the clone's refs, read as plain files: its configuration is the worker's."""
    # The searches below pass over folders without rights in silence.
    for name in ("refs", "worktrees"):
        if os.path.lexists(git_dir / name):
            for spot in blind_spots(os.fsencode(git_dir / name)):
                raise _unclear(git_dir, f"{spot.shown!r} in its {name} is closed: {spot.why}")
    files = [git_dir / "HEAD", *git_dir.glob("worktrees/*/HEAD")]
    refs = git_dir / "refs"
    if refs.is_dir() and not refs.is_symlink():
        files += [path for path in refs.rglob("*") if not path.is_dir()]
    if len(files) > _MAX_CLONE_REFS:
        raise _unclear(git_dir, f"it has more than {_MAX_CLONE_REFS} refs")
    for path in files:
        text = read_bounded(path, _REF_FILE_BYTES, what="a ref").decode("utf-8", "replace").strip()
        if _ID.fullmatch(text):
            yield text
        elif not text.startswith("ref:"):
            raise _unclear(git_dir, f"its ref {path.name[:60]!r} is not readable")
    packed = git_dir / "packed-refs"
    if packed.exists():
        lines = read_bounded(packed, _PACKED_REFS_BYTES, what="the packed refs").splitlines()
        for line in lines:
            text = line.decode("utf-8", "replace").lstrip("^").split(" ")[0]
            if _ID.fullmatch(text):
                yield text


def _unclear(git_dir: Path, what: str) -> CallboardError:
    return CallboardError(
        "workspace_failed", f"the clone {str(git_dir)!r} cannot be judged: {what}", "look into it"
    )
