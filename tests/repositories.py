"""Real repositories of every shape, and what a folder looks like to the byte."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "@1700000000 +0000", "GIT_COMMITTER_DATE": "@1700000000 +0000",
}  # fmt: skip


def git(*arguments: str, cwd: Path, check: bool = True) -> str:
    """The output of the user's git, run as the user runs it."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=cwd,
        env={**os.environ, **IDENTITY},
        capture_output=True,
        check=False,
    )
    if check and done.returncode:
        raise AssertionError(f"git {arguments}: {done.stderr.decode()}")
    return os.fsdecode(done.stdout).strip()


def repository(folder: Path, *, object_format: str = "sha1") -> Path:
    """A repository with two commits, a script, a link, a folder and a .gitignore."""
    folder.mkdir(parents=True)
    git("init", "-q", "-b", "main", f"--object-format={object_format}", cwd=folder)
    (folder / "README").write_text("one\n")
    git("add", "-A", cwd=folder)
    git("commit", "-q", "-m", "first", cwd=folder)
    (folder / "README").write_text("two\n")
    (folder / "src").mkdir()
    (folder / "src" / "code.py").write_text("x = 1\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("src/code.py")
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    git("add", "-A", cwd=folder)
    git("commit", "-q", "-m", "second", cwd=folder)
    return folder


def worker_repository(folder: Path, recipe: str) -> Path:
    """A repository whose one commit holds the recipe of one worker, `default`."""
    (folder / ".callboard" / "workers").mkdir(parents=True)
    (folder / ".callboard" / "workers" / "default.toml").write_text(recipe)
    git("init", "-q", "-b", "main", cwd=folder)
    git("add", "-A", cwd=folder)
    git("commit", "-q", "-m", "first", cwd=folder)
    return folder


def head(folder: Path) -> str:
    """The commit that HEAD names."""
    return git("rev-parse", "HEAD", cwd=folder)


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file, link and folder below `folder` with its mode and the digest of its bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            content = ""
        found[str(path.relative_to(folder))] = f"{status.st_mode:o} {content}"
    return found
