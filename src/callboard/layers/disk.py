"""The files of the wing: one folder, reached through open folders, each effect a single step.

Places are relative paths with `/`. No step follows a link, so whatever a folder is exchanged for
meanwhile, nothing outside of it is read or written. It knows nothing of what the bytes mean.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from callboard.errors import CallboardError
from callboard.regular import open_regular, read_regular, shown_name

MAX_STEPS = 256
MAX_STEP_BYTES = 255
_MAX_LEVELS = 30
"""Of folders that are taken away at one time."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_WAYWARD = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.ENAMETOOLONG)

OF_MACHINE = frozenset({"disk_full", "storage_failed"})
"""Codes of what this machine is to blame for: nothing is known of the file, and nobody at fault."""

Kind = Literal["file", "folder", "other"]
Effect = Callable[[str, str], None]


def unobserved(_step: str, _place: str) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class Survey:
    """All that lies below a place: what each folder holds, and which could not be looked into."""

    folders: dict[str, list[tuple[str, Kind]]] = field(default_factory=dict)
    refused: dict[str, CallboardError] = field(default_factory=dict)


class Disk:
    """One folder of this machine, and all that may be done to files in it.

    `effect` is told each single step right after it was taken, with its place: `make`, `write`,
    `link`, `rename`, `unlink`, `rmdir`, `append`. Every change is durable when its method returns.
    """

    def __init__(self, root: Path, effect: Effect = unobserved) -> None:
        self.root = root
        self._effect = effect

    def path(self, place: str = "") -> Path:
        """The absolute path of a place, to be told to others; nothing here goes by it."""
        return self.root.joinpath(*_steps(place))

    # --- looking ------------------------------------------------------------------------------

    def kind(self, place: str) -> Kind | None:
        """What is there; a link is `other`. None: nothing."""
        found = self.facts(place)
        if found is None:
            return None
        if stat.S_ISREG(found.st_mode):
            return "file"
        return "folder" if stat.S_ISDIR(found.st_mode) else "other"

    def names(self, place: str) -> list[str]:
        """The names in a folder, sorted; none where there is no such folder."""
        try:
            with self._folder(place) as folder:
                return sorted(os.listdir(folder))
        except CallboardError as error:
            if error.code == "file_missing":
                return []
            raise

    def entries(self, place: str) -> list[tuple[str, Kind]]:
        """What is in a folder, sorted by name; nothing where there is no such folder."""
        try:
            with self._folder(place) as folder, os.scandir(folder) as found:
                return sorted((entry.name, _kind_of(entry)) for entry in found)
        except CallboardError as error:
            if error.code == "file_missing":
                return []
            raise

    def survey(self, place: str) -> Survey:
        """Everything below a folder, by names and kinds; links are not followed."""
        found = Survey()
        try:
            with self._folder(place) as folder:
                _survey(folder, place, found)
        except CallboardError as error:
            found.refused[place] = error
        return found

    def read(self, place: str, limit_bytes: int, *, what: str | None = None) -> bytes:
        """The bytes of a regular file.

        Raises `file_missing`, `file_not_regular`, `file_unreadable`, `path_invalid`,
        `resource_limit` for more than `limit_bytes`, or a code `OF_MACHINE`; `what` names the
        file's role.
        """
        with self._parent(place) as (folder, name):
            return read_regular(
                name, limit_bytes, what=what or place, dir_fd=folder, code="resource_limit"
            )

    def facts(self, place: str) -> os.stat_result | None:
        """What the system knows of what is there, a link itself included. None: nothing."""
        try:
            with self._parent(place) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except CallboardError as error:
            if error.code == "file_missing":
                return None
            raise

    def target(self, place: str) -> bytes:
        """Where a link leads, as it says it; `link_missing` where something else is."""
        with self._parent(place) as (folder, name):
            try:
                return os.readlink(os.fsencode(name), dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                raise CallboardError(
                    "link_missing", f"{shown_name(place)!r} is no link", "look at what lies there"
                ) from error

    @contextlib.contextmanager
    def reading(self, place: str) -> Iterator[IO[bytes]]:
        """A regular file of any size, open to be read piece by piece.

        Raises `file_missing`, `file_not_regular`, `file_unreadable`, `path_invalid` or a code
        `OF_MACHINE`.
        """
        with self._parent(place) as (folder, name):
            stream = open_regular(name, what=place, dir_fd=folder)
        with stream:
            yield stream

    # --- changing -----------------------------------------------------------------------------

    def make_folder(self, place: str) -> None:
        """Make a folder with all above it, as far as they are not there."""
        steps = _steps(place)
        there = ""
        for count in range(1, len(steps) + 1):
            step = "/".join(steps[:count])
            if not self._make_one(step):
                there = step
            elif there:
                self._sync_name(there)
                there = ""
        if there:
            self._sync_name(there)

    def _make_one(self, place: str) -> bool:
        with self._parent(place) as (folder, name):
            try:
                os.mkdir(name, 0o755, dir_fd=folder)
            except FileExistsError:
                os.close(_open(name, place, folder))
                return False
            self._effect("make", place)
            os.fsync(folder)
            return True

    def _sync_name(self, place: str) -> None:
        """Make the last folder durable that was there already.

        Whoever made it may have been killed just before; those above it were durable before
        anything was made in them.
        """
        with self._parent(place) as (folder, _name):
            os.fsync(folder)

    def publish(self, place: str, data: bytes) -> None:
        """Put a whole file in its place, instead of one that may be there."""
        with self._parent(place) as (folder, name), self._temporary(folder, place, data) as sibling:
            os.rename(sibling, name, src_dir_fd=folder, dst_dir_fd=folder)
            self._effect("rename", place)
            os.fsync(folder)

    def publish_new(self, place: str, data: bytes) -> bool:
        """Put a whole file where none is, by a link; False: there is something, which stays."""
        with self._parent(place) as (folder, name), self._temporary(folder, place, data) as sibling:
            try:
                os.link(sibling, name, src_dir_fd=folder, dst_dir_fd=folder)
            except FileExistsError:
                # Whoever put it there may have been killed before its name was durable.
                os.fsync(folder)
                return False
            self._effect("link", place)
            os.fsync(folder)
            return True

    def move(self, place: str, to: str) -> None:
        """Give a file or folder another name; a file that has that name is replaced."""
        with self._parent(place) as (old, name), self._parent(to) as (new, new_name):
            os.rename(name, new_name, src_dir_fd=old, dst_dir_fd=new)
            self._effect("rename", to)
            os.fsync(new)
            os.fsync(old)

    def append(self, place: str, data: bytes) -> None:
        """Add to the end of a file, which is made if there is none. One process at a time may."""
        with self._parent(place) as (folder, name):
            descriptor = os.open(name, _APPEND, 0o644, dir_fd=folder)
            try:
                before = os.fstat(descriptor)
                if not stat.S_ISREG(before.st_mode):
                    raise _outside(place)
                try:
                    _write_all(descriptor, data)
                    os.fsync(descriptor)
                except OSError:
                    # Half a line would spoil the next one.
                    os.ftruncate(descriptor, before.st_size)
                    raise
            finally:
                os.close(descriptor)
            self._effect("append", place)
            os.fsync(folder)

    def remove(self, place: str) -> None:
        """Take a file (or a link, pipe or socket, never a folder) away, if it is there."""
        if self.kind(place) is None:
            return
        with self._parent(place) as (folder, name), contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
            self._effect("unlink", place)
            os.fsync(folder)

    def remove_tree(self, place: str) -> None:
        """Take a folder with all that is in it away, however deep; links in it are not followed."""
        if self.kind(place) != "folder":
            self.remove(place)
            return
        # What is too deep to be named comes up while the rest is taken away.
        while names := self.names(place):
            for name in names:
                self._remove_below(place, f"{place}/{name}")
        self._remove_empty(place)

    def _remove_below(self, top: str, place: str) -> None:
        if self.kind(place) != "folder":
            self.remove(place)
        elif place.count("/") - top.count("/") > _MAX_LEVELS:
            self.move(place, f"{top}/.{secrets.token_hex(8)}.removed")
        else:
            for name in self.names(place):
                self._remove_below(top, f"{place}/{name}")
            self._remove_empty(place)

    def _remove_empty(self, place: str) -> None:
        with self._parent(place) as (folder, name), contextlib.suppress(FileNotFoundError):
            os.rmdir(name, dir_fd=folder)
            self._effect("rmdir", place)
            os.fsync(folder)

    # --- steps --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _folder(self, place: str) -> Iterator[int]:
        steps = _steps(place)
        descriptor = _open(str(self.root), place, None)
        try:
            for step in steps:
                deeper = _open(step, place, descriptor)
                # Ctrl-C may come right behind either call, and nothing is to be closed twice.
                above, descriptor = descriptor, deeper
                os.close(above)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _parent(self, place: str) -> Iterator[tuple[int, str]]:
        *folders, name = _steps(place) or [""]
        if not name:
            raise _outside(place)
        with self._folder("/".join(folders)) as folder:
            try:
                yield folder, name
            except OSError as error:
                raise _failed(place, error) from error

    @contextlib.contextmanager
    def _temporary(self, folder: int, place: str, data: bytes) -> Iterator[str]:
        """A finished sibling that is gone afterwards, unless it was renamed."""
        name = f".{place.rpartition('/')[2][:48]}.{secrets.token_hex(8)}.tmp"
        descriptor = os.open(name, _NEW, 0o644, dir_fd=folder)
        try:
            try:
                _write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._effect("write", place)
            yield name
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)


def _steps(place: str) -> list[str]:
    steps = place.split("/") if place else []
    if len(steps) > MAX_STEPS or "\0" in place or any(step in ("", ".", "..") for step in steps):
        raise _outside(place)
    try:
        longest = max(map(len, os.fsencode(place).split(b"/")))
    except UnicodeEncodeError as error:
        raise _outside(place) from error
    if longest > MAX_STEP_BYTES:
        raise _outside(place)
    return steps


def _survey(folder: int, place: str, found: Survey) -> None:
    with os.scandir(folder) as entries:
        here = sorted((entry.name, _kind_of(entry)) for entry in entries)
    found.folders[place] = here
    for name, kind in here:
        if kind != "folder":
            continue
        below = f"{place}/{name}"
        try:
            _steps(below)
            deeper = _open(name, below, folder)
        except CallboardError as error:
            found.refused[below] = error
            continue
        try:
            _survey(deeper, below, found)
        finally:
            os.close(deeper)


def _kind_of(entry: os.DirEntry[str]) -> Kind:
    if entry.is_file(follow_symlinks=False):
        return "file"
    return "folder" if entry.is_dir(follow_symlinks=False) else "other"


def _open(name: str, place: str, folder: int | None) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        raise _failed(place, error) from error


def _failed(place: str, error: OSError) -> CallboardError:
    shown = shown_name(place)
    if error.errno == errno.ENOENT:
        return CallboardError("file_missing", f"{shown!r} does not exist", "check the path")
    if error.errno in _WAYWARD:
        return _outside(place)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CallboardError(
            "disk_full",
            f"{shown!r} was not changed: {error.strerror}",
            "make room on the disk and do it again",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return CallboardError(
            "file_unreadable",
            f"{shown!r} cannot be opened: {error.strerror}",
            "check the folder and its permissions",
        )
    return CallboardError(
        "storage_failed",
        f"{shown!r}: the disk refused: {error.strerror}",
        "check the disk and what lies there, and do it again",
    )


def _outside(place: str) -> CallboardError:
    return CallboardError(
        "path_invalid",
        f"{shown_name(place)!r} is no place below the layers' folder, or leads through a link",
        "use plain folders; links are not followed",
    )


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
