"""A bare remote and clones of it, each with a `RemoteStore` of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callboard.board.storage.remote import RemoteStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.transport import RemoteAccess, Transport
from callboard.clock import FixedClock
from tests.board.storage.shapes import Git

REF = "refs/heads/work-queue"
PRIVATE = "refs/callboard/remotes/origin/work-queue"
Open = Callable[[Path], Repository]


class Remote:
    """A bare repository `hub.git` with one commit on `main`, below `root`; `clone` makes clones."""

    def __init__(self, root: Path, git: Git, opened: Open, *options: str) -> None:
        self.root, self.git, self._opened = root, git, opened
        self.path = root / "hub.git"
        source = root / "source"
        git(root, "init", "-q", "-b", "main", *options, str(source))
        (source / "README").write_text("hello\n")
        git(source, "add", "README")
        git(source, "commit", "-qm", "first")
        git(root, "clone", "-q", "--bare", str(source), str(self.path))

    @property
    def url(self) -> str:
        """An address by which Git does not take the short cut of a local clone."""
        return f"file://{self.path}"

    def clone(self, name: str, *options: str) -> Path:
        """A clone of the remote in the new folder `name`."""
        self.git(self.root, "clone", "-q", *options, self.url, str(self.root / name))
        return self.root / name

    def store(self, clone: Path, branch: str = "work-queue", **access: Any) -> RemoteStore:
        """The board on `branch` of the remote, as the clone has it."""
        repository = self._opened(clone)
        offline = access.get("offline", False)
        asked = {"name": "origin", "environment": dict(os.environ), **access}
        return RemoteStore(
            repository,
            branch,
            Transport(repository, RemoteAccess(**asked)),
            clock=FixedClock(1_700_000_000_000),
            offline=offline,
        )

    def tip(self, branch: str = "work-queue") -> str | None:
        """Where the remote's branch is."""
        return self.git(self.path, "rev-parse", "-q", "--verify", branch, check=False) or None

    def ledger(self, branch: str = "work-queue") -> bytes:
        """The ledger as the remote has it."""
        return self.git(self.path, "show", f"{branch}:work-queue.jsonl").encode() + b"\n"

    def install(self, data: bytes) -> None:
        """Make the branch one commit with exactly this ledger."""
        oid = self.git(self.path, "hash-object", "-w", "--stdin", stdin=data)
        listing = f"100644 blob {oid}\twork-queue.jsonl\n".encode()
        tree = self.git(self.path, "mktree", stdin=listing)
        commit = self.git(self.path, "commit-tree", tree, "-m", "made by hand")
        self.git(self.path, "update-ref", REF, commit)

    def hook(self, name: str, script: str) -> None:
        """Let the remote run `script` as its hook of that name."""
        path = self.path / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


def refs(git: Git, clone: Path) -> dict[str, str]:
    """Every ref of a clone and what it holds."""
    lines = git(clone, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines)


def wrapper(folder: Path, script: str) -> dict[str, str]:
    """An environment whose `git` is `script`, with `$REAL` for the real one."""
    import shutil

    real = shutil.which("git")
    assert real is not None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "git"
    path.write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
    path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
