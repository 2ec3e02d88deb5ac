"""The Git subject of a repository: its HEAD, and a digest of all that differs from it.

Equal states give equal subjects, whatever the order of things. Files are read without following
links, and nothing of the repository is executed or changed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from callboard.errors import CallboardError
from callboard.git import Git
from callboard.layers.changes import GITLINK, Changes, Entry, Lister, git_dir_of, head_of
from callboard.layers.disk import OF_MACHINE, Disk
from callboard.layers.records.evaluation import GitSubject
from callboard.regular import shown_name
from callboard.visible import visible

RULE = "dirty-1"
"""The version of the rule. Another way to make the digest gets another one."""

_TRIES = 5
_CHUNK_BYTES = 1024 * 1024
_ABSENT = (b"absent", b"")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many differing paths, and how many bytes of them, are looked at."""

    paths: int = 100_000
    size_bytes: int = 4 * 1024 * 1024 * 1024


_BOUNDS = Bounds()


def subject_of(git: Git, repository: Path, bounds: Bounds = _BOUNDS) -> GitSubject:
    """The subject of the work tree whose root is the absolute path `repository`.

    Both fields are None where that is no repository; before the first commit `head` is None and
    everything counts as different. Ignored files and `.callboard/layers` are left out. A file
    that a filter of the user's would transform counts by its own bytes as soon as git cannot tell
    from its times that it is unchanged.

    Raises `subject_too_large` beyond `bounds`, `subject_unsettled` where files change all the
    time, `file_unreadable`, and the codes of `Git.run`.
    """
    git_dir = git_dir_of(repository)
    if git_dir is None:
        return GitSubject(head=None, dirty=None)
    try:
        return _settled(git, git_dir, repository, bounds)
    except CallboardError as error:
        raise _told_by_git(error) from error


def _told_by_git(error: CallboardError) -> CallboardError:
    """The error with what git said of it, which is otherwise in its details alone."""
    said = str(error.details.get("stderr", "")).strip().splitlines()
    if error.code != "git_failed" or not said:
        return error
    return CallboardError(
        error.code,
        f"{error.message}: {visible(said[-1])[:500]}",
        "put the repository right, until `git status` works in it, and do it again",
        error.details,
    )


def _settled(git: Git, git_dir: Path, repository: Path, bounds: Bounds) -> GitSubject:
    lister = Lister(git, git_dir, repository)
    changes = lister.changes()
    for _ in range(_TRIES):
        reading = _Reading(git, repository, bounds)
        dirty = _dirty(reading, changes)
        again = lister.changes()
        if again == changes and reading.is_still_true():
            return GitSubject(head=changes.head, dirty=dirty)
        changes = again
    raise CallboardError(
        "subject_unsettled",
        f"files of {str(repository)!r} change all the time; no state of them can be told",
        "let what writes there end, or have git ignore what it writes",
    )


def _dirty(reading: _Reading, changes: Changes) -> str | None:
    reading.check_count(len(changes))
    records: list[tuple[bytes, ...]] = [(b"unmerged", line) for line in changes.unmerged]
    for path, entry in changes.staged:
        records.append((b"staged", path, *((entry.mode, entry.oid) if entry else _ABSENT)))
    for path, entry, may_lack in changes.suspects:
        found = reading.state(path, entry)
        if found is not None and not (found == _ABSENT and may_lack):
            records.append((b"changed", path, *found))
    for path in changes.untracked:
        records.append((b"untracked", path, *(reading.state(path, None) or _ABSENT)))
    if not records:
        return None
    digest = hashlib.sha256()
    for record in sorted(records):
        # Each field with its length before it: no two lists of records have the same bytes.
        for field in (b"%d" % len(record), *record):
            digest.update(b"%d:%s," % (len(field), field))
    return f"{RULE}:sha256:{digest.hexdigest()}"


class _Reading:
    """What the files of the work tree hold, and whether they still do."""

    def __init__(self, git: Git, repository: Path, bounds: Bounds) -> None:
        self._git = git
        self._disk = Disk(repository)
        self._bounds = bounds
        self._rest_bytes = bounds.size_bytes
        self._seen: dict[str, tuple[int, ...] | None] = {}
        self._heads: dict[str, str | None] = {}

    def check_count(self, count: int) -> None:
        """Refuse more paths than are allowed."""
        if count > self._bounds.paths:
            raise _too_large(f"{count} paths", f"{self._bounds.paths} paths")

    def state(self, path: bytes, entry: Entry | None) -> tuple[bytes, bytes] | None:
        """Mode and content at a path; None where it is what the index has in `entry`."""
        place = os.fsdecode(path).rstrip("/")
        facts = self._facts(place)
        self._seen[place] = _key(facts)
        if facts is None:
            return _ABSENT
        mode = facts.st_mode
        if stat.S_ISLNK(mode):
            return self._told(b"120000", self._target(place), entry)
        if stat.S_ISREG(mode):
            return self._file(place, b"100755" if mode & stat.S_IXUSR else b"100644", entry)
        if stat.S_ISDIR(mode):
            head = self._heads[place] = self._head(place)
            if head is None and entry is not None and entry.mode == GITLINK:
                return None
            found = (GITLINK, (head or "").encode())
            return None if entry is not None and found == (entry.mode, entry.oid) else found
        return b"special", b"%o" % stat.S_IFMT(mode)

    def is_still_true(self) -> bool:
        """Whether everything that was looked at is as it was."""
        return all(_key(self._facts(place)) == seen for place, seen in self._seen.items()) and all(
            self._head(place) == head for place, head in self._heads.items()
        )

    def _facts(self, place: str) -> os.stat_result | None:
        try:
            return self._disk.facts(place)
        except CallboardError as error:
            # A folder on the way has become a link or a file: what git knows there is gone.
            if error.code == "path_invalid":
                return None
            raise

    def _head(self, place: str) -> str | None:
        folder = self._disk.path(place)
        git_dir = git_dir_of(folder)
        return None if git_dir is None else head_of(self._git, git_dir)

    def _target(self, place: str) -> bytes:
        try:
            return self._disk.target(place)
        except CallboardError as error:
            if error.code in OF_MACHINE:
                raise
            # It is no link any more; that is noticed by what was seen of it.
            return b""

    def _told(self, mode: bytes, data: bytes, entry: Entry | None) -> tuple[bytes, bytes] | None:
        if entry is not None and entry.mode == mode:
            blob = _blob(entry, len(data))
            blob.update(data)
            if blob.hexdigest().encode() == entry.oid:
                return None
        return mode, data

    def _file(self, place: str, mode: bytes, entry: Entry | None) -> tuple[bytes, bytes] | None:
        content = hashlib.sha256()
        try:
            with self._disk.reading(place) as stream:
                size = os.fstat(stream.fileno()).st_size
                blob = _blob(entry, size)
                while data := stream.read(_CHUNK_BYTES):
                    self._spend(len(data))
                    content.update(data)
                    blob.update(data)
        except CallboardError as error:
            # As with links: what it was a moment ago is on record.
            if error.code in ("file_missing", "file_not_regular", "path_invalid"):
                return _ABSENT
            raise
        except OSError as error:
            raise CallboardError(
                "file_unreadable",
                f"{shown_name(place)!r} cannot be read: {error.strerror}",
                "check the file and the disk",
            ) from error
        if entry is not None and (mode, blob.hexdigest().encode()) == (entry.mode, entry.oid):
            return None
        return mode, content.hexdigest().encode()

    def _spend(self, size_bytes: int) -> None:
        self._rest_bytes -= size_bytes
        if self._rest_bytes < 0:
            bound = f"{self._bounds.size_bytes} bytes"
            raise _too_large(f"files of more than {bound}", bound)


def _blob(entry: Entry | None, size_bytes: int) -> hashlib._Hash:
    """The beginning of git's own id of a file with `size_bytes`."""
    make: Callable[..., hashlib._Hash] = hashlib.sha1
    if entry is not None and len(entry.oid) == 64:
        make = hashlib.sha256
    # The id tells equal bytes apart from others here; it protects nothing.
    return make(b"blob %d\0" % size_bytes, usedforsecurity=False)


def _key(facts: os.stat_result | None) -> tuple[int, ...] | None:
    if facts is None:
        return None
    if stat.S_ISDIR(facts.st_mode):
        return (facts.st_mode,)
    return (
        facts.st_dev,
        facts.st_ino,
        facts.st_mode,
        facts.st_size,
        facts.st_mtime_ns,
        facts.st_ctime_ns,
    )


def _too_large(found: str, bound: str) -> CallboardError:
    return CallboardError(
        "subject_too_large",
        f"{found} differ from HEAD, at most {bound} are looked at",
        "commit what is finished, or have git ignore what is made anew",
    )
