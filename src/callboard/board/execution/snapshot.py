"""A run's work tree as one commit, made where the worker has no say.

The worker rules its clone's `.git`, so neither its index nor its configuration nor its objects
are used: a fresh repository of ours looks at the work tree, with the user's objects alone behind
it. Nothing configured by the worker may run, and nothing but files in the tree is taken.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from callboard.board.execution.blind_spots import BlindSpot, blind_spots
from callboard.board.execution.patch_links import SYMLINK, read_links, wrong_links
from callboard.board.execution.workspace import (
    Workspace,
    borrow_objects,
    disk_faults,
    initialise,
    remove_tree,
)
from callboard.errors import CallboardError
from callboard.git import Git

_GITLINK = "160000"
_STEP_S = 900.0
# More folders than these without rights are nobody's caches; the first of them is refused.
_MAX_BLIND = 100
_UNTRACKED = ("ls-files", "--others", "--exclude-standard", "-z")
_NAME = "Callboard"
_EMAIL = "board@callboard.invalid"


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """The most a run may have changed: paths, and bytes of regular files together; and the most
    links, and bytes of their targets together, that a tree may hold in which links change."""

    paths: int = 20_000
    file_bytes: int = 256 * 1024 * 1024
    links: int = 50_000
    link_bytes: int = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs. Modes are Git's, in octal; `000000` where there is no file.

    `path` holds bytes that are not UTF-8 as surrogates, as the file system functions do.
    """

    path: str
    old_mode: str
    new_mode: str
    new_id: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A commit in the trusted Git folder `git_dir`, not yet anywhere else."""

    git_dir: Path
    commit: str
    tree: str
    parent: str
    changes: tuple[Change, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The changed paths, in Git's order."""
        return tuple(change.path for change in self.changes)


def diff_to_commit(
    git: Git,
    workspace: Workspace,
    *,
    trusted: Path,
    message: str,
    at_ms: int,
    base: str | None = None,
    limits: SnapshotLimits | None = None,
    paths: Sequence[str] = (),
) -> Snapshot | None:
    """Commit what the work tree holds on top of `base` (else the commit it began at); with `paths`
    what lies at or below them, and all else as it is in `base`.

    Untracked files count unless the tree's own `.gitignore` files exclude them; so do deletions,
    modes and symbolic links. Submodules stay as they are in `base`. The new folder `trusted` must
    lie outside the workspace; it is the caller's to remove once the commit has been fetched. None,
    and no folder, when nothing changed. Author and committer are fixed, the time is `at_ms`.

    Raises `CallboardError` `patch_refused` (a nested repository, a path or link that leaves the
    tree, a special file, a folder that cannot be looked into), `patch_limit`, or the codes of
    `Git.run`.
    """
    _require_outside(workspace, trusted)
    base = base or workspace.commit
    with contextlib.ExitStack() as cleanup, disk_faults(trusted):
        cleanup.callback(remove_tree, trusted)
        tree = tree_of(git, workspace, trusted=trusted, base=base, limits=limits, paths=paths)
        changes = changes_between(git, trusted, base, tree)
        if not changes:
            return None
        if not git.run(["ls-tree", tree], git_dir=trusted).output:
            raise _refused(".", "would lose every file: a patch leaves something to work on")
        _refuse_submodules(changes)
        _refuse_links(git, trusted, (base, tree), changes, limits or SnapshotLimits())
        commit = _commit(git, trusted, tree, base, message, at_ms)
        cleanup.pop_all()
    return Snapshot(trusted, commit, tree, base, changes)


def tree_of(
    git: Git,
    workspace: Workspace,
    *,
    trusted: Path,
    base: str,
    limits: SnapshotLimits | None = None,
    paths: Sequence[str] = (),
) -> str:
    """Write the work tree, or what of it is at `paths`, as a tree object into the new Git folder
    `trusted`; returns its id.

    Never without what lies in a folder that cannot be looked into: that is `patch_refused`.
    """
    work_tree = workspace.folder
    if work_tree.is_symlink() or not work_tree.is_dir():
        raise _refused(work_tree.name, "the work tree is not a folder any more")
    trusted.mkdir(mode=0o700, parents=True)
    initialise(git, trusted, base, bare=True)
    borrow_objects(trusted, workspace.source)
    look = _Look(git, trusted, work_tree)
    look.at(["read-tree", base])
    wanted = [os.fsencode(path) for path in paths]
    _refuse_blind(look, wanted)
    # Status 1: some files differ. Every file is hashed, as no time stamp of a worker's counts.
    look.at(["update-index", "-q", "--refresh"], statuses=(0, 1))
    differing = look.names(["diff-files", "--name-only", "-z", "--ignore-submodules=all"])
    changed = [name for name in differing if _is_wanted(name, wanted)]
    untracked = [name for name in look.names(_UNTRACKED) if _is_wanted(name, wanted)]
    _check_paths(work_tree, (*changed, *untracked), limits or SnapshotLimits())
    # What is gone first: it may stand in the way of what is new.
    gone = {name for name in changed if not _is_file(work_tree, name)}
    there = [*(name for name in changed if name not in gone), *untracked]
    for options, names in (
        (("--force-remove",), sorted(gone)),
        (("--add", "--remove", "--replace"), there),
    ):
        look.at(["update-index", *options, "-z", "--stdin"], stdin=_lines(names))
    # Git passes over names it distrusts (other spellings of .git) without a word.
    for name in sorted(set(look.names(_UNTRACKED)).intersection(untracked)):
        raise _refused(os.fsdecode(name), "is a path that no commit may hold")
    return git.text(["write-tree"], git_dir=trusted)


def changes_between(git: Git, git_dir: Path, old: str, new: str) -> tuple[Change, ...]:
    """What differs between two trees or commits, as Git sees them, in its order."""
    answer = git.run(
        ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", old, new],
        git_dir=git_dir,
    )
    fields = answer.output.split(b"\0")
    changes = []
    for header, path in zip(fields[0:-1:2], fields[1::2], strict=True):
        old_mode, new_mode, _old_id, new_id, _status = header.decode("ascii")[1:].split(" ")
        changes.append(Change(os.fsdecode(path), old_mode, new_mode, new_id))
    return tuple(changes)


@dataclass(frozen=True, slots=True)
class _Look:
    """Git calls of the trusted folder upon the worker's files."""

    git: Git
    git_dir: Path
    work_tree: Path

    def at(
        self,
        arguments: Sequence[str | bytes],
        *,
        stdin: bytes = b"",
        statuses: Sequence[int] = (0,),
        variables: Mapping[str, str] | None = None,
    ) -> bytes:
        answer = self.git.run(
            arguments,
            git_dir=self.git_dir,
            work_tree=self.work_tree,
            settings=("core.symlinks=true", "core.fileMode=true", "core.autocrlf=false"),
            variables=variables,
            stdin=stdin,
            statuses=statuses,
            timeout_s=_STEP_S,
        )
        return answer.output

    def names(self, arguments: Sequence[str | bytes]) -> list[bytes]:
        return [name for name in self.at(arguments).split(b"\0") if name]


def _is_wanted(name: bytes, wanted: Sequence[bytes]) -> bool:
    """Whether a path is one of those asked for, or below one; all are where none is."""
    return not wanted or any(name == one or name.startswith(one + b"/") for one in wanted)


def _refuse_blind(look: _Look, wanted: Sequence[bytes]) -> None:
    """Refuse folders that Git would pass over with a warning, unless no file in them counts."""
    everywhere = blind_spots(os.fsencode(look.work_tree), leave_out=b".git")
    found = (
        spot
        for spot in everywhere
        if _is_wanted(spot.path, wanted) or any(one.startswith(spot.path + b"/") for one in wanted)
    )
    blind = list(itertools.islice(found, _MAX_BLIND + 1))
    if len(blind) > _MAX_BLIND:
        raise _unseen(blind[0])
    for spot in blind:
        if not _is_excluded(look, spot.path):
            raise _unseen(spot)


def _is_excluded(look: _Look, folder: bytes) -> bool:
    """Whether the tree's `.gitignore` files exclude all of `folder`, no file of `base` below it."""
    # The dot keeps a name from being read as pathspec magic: this command takes no literal ones.
    name = b"./" + folder
    asked = look.at(
        ["check-ignore", "-z", "--stdin"],
        stdin=_lines([name]),
        # Status 128 is a path that Git itself cannot follow.
        statuses=(0, 1, 128),
        variables={"GIT_LITERAL_PATHSPECS": "0"},
    )
    return asked == name + b"\0" and not look.names(["ls-files", "-z", "--", folder])


def _unseen(spot: BlindSpot) -> CallboardError:
    return CallboardError(
        "patch_refused",
        f"the folder {spot.shown!r} cannot be looked into: {spot.why}",
        "give it back its rights (chmod u+rwx) or a shorter path, or list it in .gitignore",
        {"path": spot.shown},
    )


def _check_paths(work_tree: Path, names: Iterable[bytes], limits: SnapshotLimits) -> None:
    """Refuse what must not enter a commit, before any of it is read."""
    total_bytes = 0
    folders: set[bytes] = set()
    root = os.fsencode(work_tree)
    for count, name in enumerate(names, start=1):
        shown = os.fsdecode(name)
        if name.endswith(b"/"):
            raise _refused(shown, "is a repository of its own inside the work tree")
        parts = name.split(b"/")
        if any(part.lower() == b".git" or part in (b"", b".", b"..") for part in parts):
            raise _refused(shown, "is a path that no commit may hold")
        folders.update(b"/".join(parts[:depth]) for depth in range(1, len(parts)))
        total_bytes += _regular_bytes(os.path.join(root, name), shown)
        if count > limits.paths or total_bytes > limits.file_bytes:
            raise CallboardError(
                "patch_limit",
                f"the work tree changes more than {limits.paths} paths or {limits.file_bytes} "
                f"bytes, at {shown!r}",
                "let .gitignore exclude what is built or downloaded, or deliver less at once",
                {"limit_paths": limits.paths, "limit_bytes": limits.file_bytes},
            )
    for folder in sorted(folders):
        if os.path.lexists(os.path.join(root, folder, b".git")):
            raise _refused(os.fsdecode(folder), "is a repository of its own inside the work tree")


def _is_file(work_tree: Path, name: bytes) -> bool:
    """Whether a file or link lies at `name`, reached through folders alone."""
    path = os.fsencode(work_tree)
    *folders, last = name.split(b"/")
    try:
        for folder in folders:
            path = os.path.join(path, folder)
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                return False
        return not stat.S_ISDIR(os.lstat(os.path.join(path, last)).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _lines(names: Iterable[bytes]) -> bytes:
    return b"".join(name + b"\0" for name in names)


def _regular_bytes(path: bytes, shown: str) -> int:
    """The size of a regular file; 0 for a link, a folder or nothing; others are refused."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    if stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return 0
    raise _refused(shown, "is neither a file nor a link")


def _refuse_submodules(changes: Iterable[Change]) -> None:
    for change in changes:
        if change.new_mode == _GITLINK:
            raise _refused(change.path, "would become a submodule")


def _refuse_links(
    git: Git,
    git_dir: Path,
    trees: tuple[str, str],
    changes: Sequence[Change],
    limits: SnapshotLimits,
) -> None:
    """Refuse a tree in which a link leads out, or into a Git folder, and not as it did in the base.

    All links are judged, as a change of one may turn others; none where no link is changed.
    """
    if not any(SYMLINK in (change.old_mode, change.new_mode) for change in changes):
        return
    before, after = (
        read_links(git, git_dir, one, max_links=limits.links, max_bytes=limits.link_bytes)
        for one in trees
    )
    changed = {os.fsencode(change.path) for change in changes}
    for same_case in (False, True):
        wrong = wrong_links(after, same_case=same_case)
        known = wrong_links(before, same_case=same_case) if wrong else {}
        for path in sorted(wrong, key=lambda one: (one not in changed, one)):
            if known.get(path) != wrong[path]:
                where = " where upper and lower case are one" if same_case else ""
                raise _refused(os.fsdecode(path), f"is a link that {wrong[path][0]}{where}")


def _commit(git: Git, git_dir: Path, tree: str, base: str, message: str, at_ms: int) -> str:
    moment = f"@{at_ms // 1000} +0000"
    answer = git.run(
        ["commit-tree", tree, "-p", base, "-F", "-"],
        git_dir=git_dir,
        variables={
            "GIT_AUTHOR_NAME": _NAME,
            "GIT_AUTHOR_EMAIL": _EMAIL,
            "GIT_AUTHOR_DATE": moment,
            "GIT_COMMITTER_NAME": _NAME,
            "GIT_COMMITTER_EMAIL": _EMAIL,
            "GIT_COMMITTER_DATE": moment,
        },
        stdin=message.encode("utf-8", "replace"),
    )
    return answer.output.decode("ascii").strip()


def _require_outside(workspace: Workspace, trusted: Path) -> None:
    if trusted.absolute().is_relative_to(workspace.folder) or os.path.lexists(trusted):
        raise CallboardError(
            "workspace_failed",
            f"{str(trusted)!r} is not a new folder outside the workspace",
            "give a folder of your own that does not exist yet",
        )


def _refused(path: str, what: str) -> CallboardError:
    shown = path.encode("utf-8", "backslashreplace").decode("utf-8")[:300]
    return CallboardError(
        "patch_refused",
        f"{shown!r} {what}",
        "remove it from the work tree, or list it in .gitignore",
        {"path": shown},
    )
