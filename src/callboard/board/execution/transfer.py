"""A snapshot's objects, carried into the user's repository.

Writes objects there and nothing else: setting a ref is the caller's decision. What arrives was
checked by Git's strict unpacking, first where the snapshot was made, so that nothing of what is
refused gets there, and is durable before this returns.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import IO

from callboard.board.execution.snapshot import Snapshot
from callboard.board.execution.workspace import disk_faults
from callboard.errors import CallboardError
from callboard.git import Git

# The number of objects from which Git itself keeps a received pack as it is (fetch.unpackLimit).
_KEEP_PACK_FROM = 100
_PACK_HEADER_BYTES = 12
_STEP_S = 900.0
# How Git's checks name an object and what is wrong with it, by a word of a fixed list.
_FOUND = re.compile(r"object ([0-9a-f]{40,64}): (\w+): ([^\n]*)")
_LISTING_BYTES = 512 * 1024 * 1024
# Loose objects are not synced by default, and a ref is about to point to these.
_DURABLE = ("core.fsync=all", "core.fsyncMethod=fsync")


def fetch_into(git: Git, target: Path, snapshot: Snapshot) -> None:
    """Copy the snapshot's commit, and all of it that its parent lacks, into `target`.

    `target` is the user's Git common folder; no ref, config, hook or work tree of it is touched.
    Repeating it does no harm. Raises `CallboardError` `patch_refused` where Git holds the objects
    themselves for wrong, with `reason` and `path` in the details where it says them; `target` is
    as it was then. Else `fetch_failed` where `target` does not take them or they do not read back
    as the snapshot's, or the codes of `Git.run`.
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
        _check(git, snapshot, pack)
        _unpack(git, target, pack)
    _read_back(git, target, snapshot)


def _check(git: Git, snapshot: Snapshot, pack: IO[bytes]) -> None:
    """Let Git judge the objects where they were made, which is thrown away with what is wrong."""
    try:
        _index(git, snapshot, pack, "--strict")
    except CallboardError as error:
        if error.code != "git_failed":
            raise
        # What cannot be stored either has another fault than what is in it.
        _index(git, snapshot, pack)
        raise _refused(git, snapshot, error) from error


def _index(git: Git, snapshot: Snapshot, pack: IO[bytes], *options: str) -> None:
    os.lseek(pack.fileno(), 0, os.SEEK_SET)
    git.run(
        ["index-pack", "--stdin", *options],
        git_dir=snapshot.git_dir,
        stdin=pack,
        timeout_s=_STEP_S,
    )


def _refused(git: Git, snapshot: Snapshot, error: CallboardError) -> CallboardError:
    """The refusal with what Git said, as far as it is to be understood."""
    found = _FOUND.search(str(error.details.get("stderr", "")))
    if found is None:
        what, details = "Git holds the patch for wrong, without saying why", {}
        hint = "look at what git said, in the details"
    else:
        path, is_new = _place_of(git, snapshot, found[1])
        details = {"reason": found[2], **({} if path is None else {"path": path})}
        where = "an object of the patch" if path is None else repr(path)
        what = f"Git holds {where} for wrong: {found[2]}, {found[3][:300]}"
        hint = "correct it in the work tree, or leave it out of the patch"
        if not is_new:
            what += "; it is so in the commit that the run began at"
            hint = "correct it in the repository, and begin again from there"
    return CallboardError("patch_refused", what, hint, {**error.details, **details})


def _place_of(git: Git, snapshot: Snapshot, object_id: str) -> tuple[str | None, bool]:
    """The path of a blob or tree of the snapshot, and whether it is another than its parent's."""
    found = []
    for revision in (snapshot.tree, snapshot.parent):
        asked = ["ls-tree", "-r", "-t", "-z", revision]
        listed = git.run(asked, git_dir=snapshot.git_dir, limit_bytes=_LISTING_BYTES).output
        entry = re.search(rb"(?:\A|\0)\d+ \w+ %b\t([^\0]+)" % object_id.encode(), listed)
        found.append(entry[1] if entry else None)
    root = git.text(["rev-parse", f"{snapshot.parent}^{{tree}}"], git_dir=snapshot.git_dir)
    path = b"." if object_id == snapshot.tree else found[0]
    is_new = found[1] is None and object_id != root
    return (None if path is None else path.decode("utf-8", "backslashreplace")[:300], is_new)


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
