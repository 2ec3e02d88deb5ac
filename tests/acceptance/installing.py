"""A ledger as somebody else left it on the branch of a repository, put there with Git alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.repositories import git


def install(folder: Path, data: bytes) -> str:
    """Make the branch of the board hold these bytes; answers its revision."""
    blob = _fed(["git", "hash-object", "-w", "--stdin"], folder, data)
    tree = _fed(["git", "mktree"], folder, f"100644 blob {blob}\twork-queue.jsonl\n".encode())
    revision = git("commit-tree", tree, "-m", "by hand", cwd=folder)
    git("update-ref", "refs/heads/work-queue", revision, cwd=folder)
    return revision


def _fed(words: list[str], folder: Path, data: bytes) -> str:
    done = subprocess.run(words, cwd=folder, input=data, capture_output=True, check=True)
    return done.stdout.decode().strip()
