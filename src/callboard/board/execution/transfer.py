"""A snapshot's objects, carried into the user's repository.

Writes objects there and nothing else: setting a ref is the caller's decision. What arrives was
checked by Git's strict unpacking and is durable before this returns.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

from callboard.board.execution.git import Git
from callboard.board.execution.snapshot import Snapshot
from callboard.board.execution.workspace import disk_faults
from callboard.errors import CallboardError

# The number of objects from which Git itself keeps a received pack as it is (fetch.unpackLimit).
_KEEP_PACK_FROM = 100
_PACK_HEADER_BYTES = 12
_STEP_S = 900.0
# Loose objects are not synced by default, and a ref is about to point to these.
_DURABLE = ("core.fsync=all", "core.fsyncMethod=fsync")


def fetch_into(git: Git, target: Path, snapshot: Snapshot) -> None:
    """Copy the snapshot's commit, and all of it that its parent lacks, into `target`.

    `target` is the user's Git common folder; no ref, config, hook or work tree of it is touched.
    Repeating it does no harm. Raises `CallboardError` `fetch_failed` where the objects are refused
    or do not read back as the snapshot's, or the codes of `Git.run`.
    """
    target = target.absolute()
    with disk_faults(target), tempfile.TemporaryFile(dir=snapshot.git_dir) as pack:
        wanted = f"{snapshot.commit}\n^{snapshot.parent}\n".encode("ascii")
        git.run(
            ["pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q"],
            git_dir=snapshot.git_dir,
            stdin=wanted,
            stdout=pack,
            timeout_s=_STEP_S,
        )
        _unpack(git, target, pack)
    _read_back(git, target, snapshot)


def _unpack(git: Git, target: Path, pack: IO[bytes]) -> None:
    # git shares the descriptor's position, of which Python's own buffers know nothing.
    header = os.pread(pack.fileno(), _PACK_HEADER_BYTES, 0)
    os.lseek(pack.fileno(), 0, os.SEEK_SET)
    if int.from_bytes(header[8:12], "big") < _KEEP_PACK_FROM:
        arguments = ["unpack-objects", "-q", "--strict"]
    else:
        arguments = ["index-pack", "--stdin", "--strict"]
    try:
        git.run(arguments, git_dir=target, settings=_DURABLE, stdin=pack, timeout_s=_STEP_S)
    except CallboardError as error:
        if error.code != "git_failed":
            raise
        raise CallboardError(
            "fetch_failed",
            f"the repository {str(target)!r} refused the objects of a patch",
            "run git fsck there, and check permissions and free space",
            error.details,
        ) from error


def _read_back(git: Git, target: Path, snapshot: Snapshot) -> None:
    answer = git.run(
        ["rev-list", "--parents", "--no-walk", "--format=%T", snapshot.commit],
        git_dir=target,
        statuses=range(256),
    )
    lines = answer.output.decode("ascii", "replace").splitlines()
    expected = [f"commit {snapshot.commit} {snapshot.parent}", snapshot.tree]
    if answer.status != 0 or lines != expected:
        raise CallboardError(
            "fetch_failed",
            f"commit {snapshot.commit} does not read back from {str(target)!r} as it was made",
            "run git fsck there",
            {"commit": snapshot.commit, "tree": snapshot.tree, "parent": snapshot.parent},
        )
