"""The kinds of repository a board may live in, each made by one function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Git(Protocol):
    """The `git` fixture: run a command in a folder, answer its standard output."""

    def __call__(
        self, folder: Path, *args: str, stdin: bytes | None = None, check: bool = True
    ) -> str: ...


@dataclass(frozen=True)
class Shape:
    """A repository: `path` to open it by, `git_dir` where its shared files lie."""

    path: Path
    git_dir: Path


def _plain(root: Path, git: Git, *options: str) -> Shape:
    folder = root / "plain"
    git(root, "init", "-q", "-b", "main", *options, str(folder))
    (folder / "README").write_text("hello\n")
    git(folder, "add", "README")
    git(folder, "commit", "-qm", "first")
    return Shape(folder, folder / ".git")


def _bare(root: Path, git: Git) -> Shape:
    source = _plain(root, git)
    folder = root / "bare.git"
    git(root, "clone", "-q", "--bare", str(source.path), str(folder))
    return Shape(folder, folder)


def _worktree(root: Path, git: Git) -> Shape:
    source = _plain(root, git)
    folder = root / "linked"
    git(source.path, "worktree", "add", "-q", "-b", "side", str(folder))
    return Shape(folder, source.git_dir)


def _subdirectory(root: Path, git: Git) -> Shape:
    source = _plain(root, git)
    folder = source.path / "a" / "b"
    folder.mkdir(parents=True)
    return Shape(folder, source.git_dir)


def _detached(root: Path, git: Git) -> Shape:
    source = _plain(root, git)
    git(source.path, "checkout", "-q", "--detach")
    return source


def _unborn(root: Path, git: Git) -> Shape:
    folder = root / "unborn"
    git(root, "init", "-q", "-b", "main", str(folder))
    return Shape(folder, folder / ".git")


def _separate(root: Path, git: Git) -> Shape:
    shape = _plain(root, git, "--separate-git-dir", str(root / "elsewhere"))
    return Shape(shape.path, root / "elsewhere")


SHAPES: dict[str, Callable[[Path, Git], Shape]] = {
    "sha1": _plain,
    "sha256": lambda root, git: _plain(root, git, "--object-format=sha256"),
    "bare": _bare,
    "worktree": _worktree,
    "subdirectory": _subdirectory,
    "detached": _detached,
    "unborn": _unborn,
    "separate": _separate,
}
