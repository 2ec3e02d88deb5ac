"""An opened Git repository: where it lies, what its refs say, what its objects hold.

Everything happens in this process on the repository's own files. HEAD, index, work tree, hooks,
configuration and FETCH_HEAD are never written, no reflog is, and neither the environment nor the
user's Git configuration and identity have any influence.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

from dulwich.file import SharedPerm
from dulwich.object_format import OBJECT_FORMATS

from callboard.board.storage import discovery, remote_name
from callboard.board.storage.commits import (
    CommitInfo,
    TreeEntry,
    commit_info,
    find_entry,
    folders_on,
    graft,
    path_parts,
    revise,
    sole_difference,
    tree_entries,
)
from callboard.board.storage.discovery import Layout
from callboard.board.storage.objects import Objects
from callboard.board.storage.refs import Refs, RefValue
from callboard.board.storage.refusals import io_refused, object_missing, repository_invalid
from callboard.board.storage.rolling_store import Addition, RollingPacks
from callboard.errors import CallboardError

_BRANCHES = "refs/heads/"
_TRACKING = "refs/remotes/"


class Repository:
    """One repository, main checkout, linked worktree or bare; close it, or use it with `with`."""

    def __init__(self, layout: Layout) -> None:
        shared = _shared_permissions(layout)
        self._layout = layout
        self.shared_permissions = shared
        """How Git is told to share what is written here (`core.sharedRepository`), or None."""
        self._objects = Objects(layout.common_dir / "objects", layout.object_format, shared)
        self._packs = RollingPacks(
            layout.common_dir / "objects", layout.common_dir, layout.object_format, shared
        )
        self._refs = Refs(
            layout.git_dir,
            layout.common_dir,
            oid_length=OBJECT_FORMATS[layout.object_format].hex_length,
            shared=shared,
        )

    @classmethod
    def discover(cls, path: str | os.PathLike[str]) -> Self:
        """Open the repository that the folder `path` lies in.

        Raises `CallboardError` `repository_missing` or `repository_invalid`.
        """
        return cls(discovery.find(Path(path)))

    def close(self) -> None:
        """Close what is open; the repository may still be used, and reopens what it needs."""
        self._packs.close()
        self._objects.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- where ---

    @property
    def git_dir(self) -> Path:
        """This checkout's own Git folder (of a linked worktree: below `common_dir`)."""
        return self._layout.git_dir

    @property
    def common_dir(self) -> Path:
        """The Git folder that all worktrees share; names the repository on this machine."""
        return self._layout.common_dir

    @property
    def work_tree(self) -> Path | None:
        """The checked-out folder, or None in a bare repository."""
        return self._layout.work_tree

    @property
    def object_format(self) -> str:
        """`sha1` or `sha256`."""
        return self._layout.object_format

    @property
    def remotes(self) -> tuple[str, ...]:
        """The names of the remotes in the repository's own configuration, `origin` first."""
        return self._layout.remotes

    @property
    def is_shallow(self) -> bool:
        """Whether the history is cut somewhere in this clone."""
        try:
            return bool((self._layout.common_dir / "shallow").stat().st_size)
        except OSError:
            return False

    def remote_slug(self) -> str | None:
        """`owner/name` from the URL of `origin`; None without one or for a local path."""
        url = self._layout.origin_url
        return None if url is None else remote_name.slug(url)

    # --- refs ---

    def head_commit(self) -> str | None:
        """The commit HEAD leads to; None while HEAD's branch is unborn."""
        return self._refs.resolve("HEAD")

    def head_branch(self) -> str | None:
        """The short name of the branch HEAD is on, born or not; None when detached."""
        return _short(self._refs.read("HEAD").target)

    def checkout_of(self, branch: str) -> Path | None:
        """The folder of a worktree, main or linked, whose HEAD is on `branch`, born or not.

        Of a bare repository it is the Git folder, as its HEAD says.
        """
        common = self._layout.common_dir
        main = self._refs.read_file(common / "HEAD")
        if main is not None and _short(main.target) == branch:
            return self._main_checkout()
        for admin in self._linked():
            try:
                head = self._refs.read_file(admin / "HEAD")
            except CallboardError as error:
                if error.code != "ref_invalid":
                    raise
                # Git writes the HEAD of a new worktree in place: it may be empty for a moment.
                continue
            if head is not None and _short(head.target) == branch:
                return self._linked_folder(admin)
        return None

    def _main_checkout(self) -> Path:
        common, here = self._layout.common_dir, self._layout.work_tree
        if self._layout.git_dir == common and here is not None:
            return here
        return common.parent if common.name == ".git" else common

    def _linked_folder(self, admin: Path) -> Path:
        try:
            text = os.fsdecode((admin / "gitdir").read_bytes()).rstrip("\n")
        except OSError:
            return admin
        # It names the worktree's `.git` file, as a full path or from its own folder.
        return Path(os.path.normpath(admin / text)).parent

    def _linked(self) -> list[Path]:
        # Not by `glob`, which fails where Git prunes the last worktree meanwhile.
        folder = self._layout.common_dir / "worktrees"
        try:
            return [folder / name for name in sorted(os.listdir(folder))]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise io_refused("list", folder, error) from error

    def default_branch(self, remote: str = "origin") -> str | None:
        """The short name of the remote's default branch, as far as this clone knows it."""
        prefix = f"{_TRACKING}{remote}/"
        target = self._refs.read(prefix + "HEAD").target
        return target.removeprefix(prefix) if target and target.startswith(prefix) else None

    def tracked_by(self, branch: str) -> str | None:
        """A configured remote that has `branch`, as far as this clone knows; None without one."""
        for remote in self._layout.remotes:
            name = f"{_TRACKING}{remote}/{branch}"
            try:
                if self._refs.resolve(name) is not None:
                    return remote
            except CallboardError as error:
                if error.code != "ref_invalid":
                    raise
        return None

    def read_ref(self, name: str) -> str | None:
        """The object id that the full ref name leads to, or None; `ref_invalid` if it is bad."""
        return self._refs.resolve(name)

    def ref_value(self, name: str) -> RefValue:
        """What the full ref `name` holds itself, not followed; `ref_invalid` if it is bad."""
        return self._refs.read(name)

    def ref_in_the_way(self, name: str) -> str | None:
        """The existing ref beside which `name` could not be created (`a` and `a/b`), or None."""
        return self._refs.in_the_way(name)

    def set_ref(self, name: str, old: str | None, new: str) -> bool:
        """Durably move the full ref `name` from `old` (None: it must not exist) to `new`.

        False when the ref is not at `old`: nothing was changed. Raises `CallboardError`
        `ref_locked` (details: `lock`, `stale`), `ref_conflict`, `ref_invalid`, `object_missing`,
        or `outcome_unknown` when the disk failed after the move.
        """
        if name.startswith(_BRANCHES):
            self.commit_info(new)
        elif not self._objects.contains(new):
            raise object_missing(new)
        return self.move_ref(name, old, lambda: new)

    def move_ref(self, name: str, old: str | None, make: Callable[[], str]) -> bool:
        """Like `set_ref`, with the new object made by `make` while no other process can win.

        `make` runs at most once, and only while `name` is at `old`.
        """

        moved = False
        try:
            moved = self._refs.move(name, old, lambda: self.make_durable(make, name))
        finally:
            # The turn at the ref is over: the next writer may be looking at what was made.
            self.settle(name, moved or None)
        return moved

    # --- objects ---

    def make_durable(self, make: Callable[[], str], name: str) -> str:
        """What `make` answers, once all objects that it has written for the ref `name` are durable.

        No ref moves. `settle` has to be told what became of it; until then Git's maintenance lets
        it be. One at a time a ref.
        """
        oid = make()
        self._objects.sync()
        self._packs.check(name)
        return oid

    def settle(self, name: str, moved: bool | None) -> None:
        """End what `make_durable` began.

        True: something leads to what was made. False, only with the turn at the ref: nothing does
        or ever will, and it goes. None: that is not known, and it stays as a crash would leave it.
        """
        if moved:
            self._packs.moved(name)
        elif moved is None:
            self._packs.failed(name)
        else:
            self._packs.refused(name)

    def holds(self, oid: str) -> bool:
        """Whether the object is here or in a borrowed folder."""
        return self._objects.contains(oid)

    def loose_bytes(self, commit: str, path: str) -> int:
        """What the file `path` of `commit` takes as a loose object; 0 where it is in a pack."""
        entry = self.entry(commit, path)
        return 0 if entry is None else self._objects.loose_bytes(entry.oid)

    def commit_info(self, oid: str) -> CommitInfo:
        """Tree and parents of a commit, read back from the object itself."""
        return commit_info(self._objects, oid)

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """What `path` is in `commit`; None when it is not there."""
        return find_entry(self._objects, self.commit_info(commit).tree, path_parts(path))

    def read_file(self, commit: str, path: str, limit_bytes: int) -> bytes | None:
        """The regular file `path` as `commit` has it; None when it is not there.

        Raises `CallboardError` `file_not_regular` (a folder, link or submodule),
        `resource_limit`, `path_invalid`, `object_missing` or `object_corrupt`.
        """
        entry = self.entry(commit, path)
        if entry is None:
            return None
        if not entry.is_file:
            raise CallboardError(
                "file_not_regular",
                f"{path!r} in commit {commit} is not a regular file",
                "commit a plain file there",
                {"path": path, "commit": commit},
            )
        return self._objects.read(entry.oid, "blob", limit_bytes)

    def list_files(self, commit: str, folder: str) -> tuple[str, ...]:
        """Paths from the root of the regular files directly in `folder` ("" is the root), sorted.

        Empty when there is no such folder.
        """
        tree = self.commit_info(commit).tree
        entry = find_entry(self._objects, tree, path_parts(folder) if folder else ())
        if entry is None or not entry.is_folder:
            return ()
        prefix = f"{folder}/" if folder else ""
        entries = tree_entries(self._objects, entry.oid)
        return tuple(sorted(prefix + item.name for item in entries if item.is_file))

    def read_blob(self, oid: str, limit_bytes: int) -> bytes:
        """The contents of a blob of at most `limit_bytes`, checked against its name."""
        return self._objects.read(oid, "blob", limit_bytes)

    def write_blob(self, data: bytes) -> str:
        """Store `data` durably as a blob and answer its id. No ref keeps it yet."""
        oid = self._objects.write("blob", [data])
        self._objects.sync()
        return oid

    def commit_file(
        self,
        parent: str | None,
        name: str,
        pieces: list[bytes],
        *,
        message: str,
        at_ms: int,
        ref: str | None = None,
    ) -> str:
        """Store a commit on `parent` in which the top-level file `name` is `pieces` joined.

        All other files are kept. For use inside `move_ref`, which makes it durable; `at_ms` is
        Unix milliseconds. With `ref`, which must be the ref that is being moved, the objects go
        into that ref's own pack, where a file that has grown costs what was added to it.
        """
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        blob = self._objects.name("blob", [data])
        made = revise(self._objects, parent, name, blob, message=message, at_s=at_ms // 1000)
        small = (("tree", made.tree_oid, made.tree), ("commit", made.commit_oid, made.commit))
        if ref is None:
            self._objects.write("blob", [data])
            for kind, _oid, contents in small:
                self._objects.write(kind, [contents])
        else:
            self._packs.write(ref, Addition(made.previous, blob, data, small))
            for kind, oid, contents in small:
                self._objects.remember(oid, kind, contents)
        return made.commit_oid

    def graft_file(
        self, base: str, path: str, data: bytes, *, message: str, at_ms: int
    ) -> tuple[CommitInfo, str, str]:
        """Store durably a commit on `base` with `data` as the ordinary file `path`, under no ref.

        Answers what it is, its id and the blob's. All other files are those of `base`. Raises
        `path_taken`, `path_invalid` or `object_missing`.
        """
        blob = self._objects.name("blob", [data])
        made = graft(
            self._objects, base, path_parts(path), blob, message=message, at_s=at_ms // 1000
        )
        for kind, contents in (("blob", data), *made.made):
            self._objects.write(kind, [contents])
        self._objects.sync()
        return CommitInfo(made.tree_oid, (base,)), made.commit_oid, blob

    def check_graft(self, base: str, path: str) -> None:
        """Refuse with `path_taken` a path of the commit `base` where no regular file can be."""
        folders_on(self._objects, base, path_parts(path))

    def sole_difference(self, before: str, after: str, path: str) -> TreeEntry | None:
        """What `path` is in the commit `after`; None where it is not there, or where the two
        commits differ in anything else."""
        trees = self.commit_info(before).tree, self.commit_info(after).tree
        return sole_difference(self._objects, *trees, path_parts(path))


def _short(target: str | None) -> str | None:
    if target is None or not target.startswith(_BRANCHES):
        return None
    return target.removeprefix(_BRANCHES)


def _shared_permissions(layout: Layout) -> SharedPerm | None:
    if layout.shared_repository is None:
        return None
    # Imported only where the setting is in use: it brings all of dulwich with it.
    from dulwich.repo import parse_shared_repository

    try:
        return parse_shared_repository(layout.shared_repository)
    except ValueError as error:
        raise repository_invalid(
            layout.common_dir, "core.sharedRepository has no known value", "correct the setting"
        ) from error
