"""Reading one ref, and moving one ref by compare and swap, on Git's own file protocol.

An unreadable ref is an error, never an absent one. Nothing but the ref named is touched: no
reflog, no symbolic ref is followed when writing, no other name is replaced.

dulwich's ref container is not used because it takes a ref it cannot read for an absent or older
one, overlooks packed names below the one it creates, writes reflogs in the user's name, and does
not sync folders.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dulwich.file import SharedPerm
from dulwich.refs import Ref, check_ref_format

from callboard.board.storage.refusals import io_refused
from callboard.board.storage.vanishing import make_folders
from callboard.board.storage.writer_lock import Busy, Patience, WriterLock
from callboard.errors import CallboardError
from callboard.files import sync_folder, write_synced

_MAX_HOPS = 5
_READ_BYTES = 4096
_STALE_MS = 10_000
_MAX_PART_BYTES = 255 - len(".lock")
"""Each part is a file or folder name, and Git locks a ref with a file called `<ref>.lock`."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EXDEV)


@dataclass(frozen=True, slots=True)
class RefValue:
    """What a ref holds: an object id, or the name of another ref; both None when absent."""

    oid: str | None = None
    target: str | None = None


class Refs:
    """The refs of one repository with file-backed refs.

    `oid_length` is the hex length of an object name. `wait_s` bounds how long a move waits for
    another writer.
    """

    def __init__(
        self,
        git_dir: Path,
        common_dir: Path,
        *,
        oid_length: int,
        shared: SharedPerm | None,
        wait_s: float = 0.5,
    ) -> None:
        self._git_dir = git_dir
        self._common_dir = common_dir
        self._oid_length = oid_length
        self._shared = shared
        self._wait_s = wait_s
        self._packed: tuple[tuple[int, int, int], bytes] | None = None

    # --- reading ---

    def read(self, name: str) -> RefValue:
        """What `name` (`HEAD` or `refs/…`) holds, without following it.

        Raises `CallboardError` `ref_invalid` for a bad name or contents.
        """
        check_name(name)
        return self.read_file(self._path(name)) or self._read_packed(name)

    def resolve(self, name: str) -> str | None:
        """The object id `name` leads to through symbolic refs, or None."""
        for _ in range(_MAX_HOPS):
            value = self.read(name)
            if value.target is None:
                return value.oid
            name = value.target
        raise _invalid(name, "its symbolic refs go in a circle")

    def read_file(self, path: Path) -> RefValue | None:
        """What a loose ref file holds, or None when there is no such file."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise io_refused("read the ref", path, error) from error
        try:
            data = os.read(descriptor, _READ_BYTES)
        except IsADirectoryError:
            return None
        except OSError as error:
            raise io_refused("read the ref", path, error) from error
        finally:
            os.close(descriptor)
        return self._parse(data, str(path))

    def _parse(self, data: bytes, where: str) -> RefValue:
        line = data.split(b"\n", 1)[0].rstrip().decode("utf-8", "replace")
        if line.startswith("ref:"):
            return RefValue(target=line[4:].strip())
        if len(line) != self._oid_length or line.strip("0123456789abcdef"):
            raise _invalid(where, f"it holds {line[:80]!r}, which is no object name")
        return RefValue(oid=line)

    def _read_packed(self, name: str) -> RefValue:
        data = self._packed_refs()
        at = data.find(b" " + name.encode() + b"\n")
        start = data.rfind(b"\n", 0, max(at, 0)) + 1
        if at < 0 or data[start : start + 1] == b"#":
            return RefValue()
        return self._parse(data[start:at], "packed-refs")

    def _packed_refs(self) -> bytes:
        path = self._common_dir / "packed-refs"
        try:
            status = path.stat()
            key = (status.st_ino, status.st_mtime_ns, status.st_size)
            held = self._packed
            if held is None or held[0] != key:
                with path.open("rb") as stream:
                    status = os.fstat(stream.fileno())
                    key = (status.st_ino, status.st_mtime_ns, status.st_size)
                    held = (key, stream.read())
                self._packed = held
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise io_refused("read", path, error) from error
        return held[1]

    def _path(self, name: str) -> Path:
        return (self._common_dir if name.startswith("refs/") else self._git_dir) / name

    def in_the_way(self, name: str) -> str | None:
        """An existing ref that forbids creating `name`: one above it or one below it."""
        parts = name.split("/")
        for count in range(2, len(parts)):
            above = "/".join(parts[:count])
            if (self.read_file(self._path(above)) or self._read_packed(above)) != RefValue():
                return above
        data = self._packed_refs()
        at = data.find(b" " + name.encode() + b"/")
        if at >= 0:
            return data[at + 1 : data.index(b"\n", at)].decode("utf-8", "replace")
        for folder, _, files in os.walk(self._path(name)):
            for file in files:
                return str(Path(folder, file).relative_to(self._common_dir))
        return None

    # --- moving ---

    def move(self, name: str, old: str | None, make: Callable[[], str]) -> bool:
        """Point `name` from `old` (None: it must not exist) to the object that `make` answers.

        `make` is called at most once, only while `name` is at `old` and no other Callboard
        process can move it; a slow one costs other refs nothing. True: the move is durable.
        False: `name` is elsewhere. Raises `CallboardError` `ref_locked` (details: `lock`,
        `stale`), `ref_conflict`, `ref_invalid`, or `outcome_unknown` when the move may stand.
        """
        check_name(name)
        if not name.startswith("refs/"):
            raise _invalid(name, "only names below refs/ are ever moved")
        patience = Patience(self._wait_s, lambda: self._at(name) != old)
        writer = WriterLock(self._common_dir, name, self._shared)
        try:
            with writer.held(patience):
                if self._at(name) != old:
                    return False
                other = self.in_the_way(name) if old is None else None
                if other is not None:
                    raise _conflict(name, other)
                new = make()
                return self._swap(name, old, new, writer)
        except Busy as busy:
            if busy.overtaken:
                return False
            raise _locked(name, writer.path, stale=False) from busy

    def _at(self, name: str) -> str | None:
        value = self.read(name)
        if value.target is not None:
            raise _invalid(name, f"it is a symbolic ref to {value.target!r}")
        return value.oid

    def _swap(self, name: str, old: str | None, new: str, writer: WriterLock) -> bool:
        """The move itself, under Git's own lock file, so that Git's writers are kept out too."""
        path = self._path(name)
        lock = path.with_name(path.name + ".lock")
        unsynced = {path.parent}
        try:
            writer.clear(lock)
            if not self._lock(name, old, new, lock, writer, unsynced):
                return False
            try:
                if self._at(name) != old:
                    lock.unlink(missing_ok=True)
                    return False
                os.rename(lock, path)
            except BaseException:
                lock.unlink(missing_ok=True)
                raise
        except (IsADirectoryError, NotADirectoryError) as error:
            raise _conflict(name, self.in_the_way(name)) from error
        except OSError as error:
            raise io_refused("move the ref", path, error) from error
        finally:
            writer.discard()
        self._sync(name, unsynced)
        return True

    def _lock(
        self,
        name: str,
        old: str | None,
        new: str,
        lock: Path,
        writer: WriterLock,
        unsynced: set[Path],
    ) -> bool:
        """Take Git's lock file, holding `new`; False when the ref has left `old` meanwhile."""
        contents = new.encode("ascii") + b"\n"
        patience = Patience(self._wait_s, lambda: self._at(name) != old)
        while True:
            vanished: FileNotFoundError | None = None
            try:
                self._make_room(name, unsynced)
                if _link(writer.prepare(contents), lock, contents):
                    return True
            except FileNotFoundError as error:
                # Git has just cleared away the folder, as it was empty.
                vanished = error
            if not patience.pause():
                if patience.overtaken():
                    return False
                if vanished is not None:
                    raise vanished
                raise _locked(name, lock, stale=_age_ms(lock, writer.pending) >= _STALE_MS)

    def _make_room(self, name: str, unsynced: set[Path]) -> None:
        """Make the folders above the ref's file, and drop empty ones in its place."""
        path = self._path(name)
        try:
            make_folders(self._common_dir, path.parent, self._shared, unsynced)
            for folder, _, _ in os.walk(path, topdown=False):
                _drop(folder)
        except (FileExistsError, NotADirectoryError) as error:
            raise _conflict(name, self.in_the_way(name)) from error
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            raise _conflict(name, self.in_the_way(name)) from error

    def _sync(self, name: str, folders: set[Path]) -> None:
        try:
            for folder in sorted(folders):
                self._sync_folder(folder)
        except OSError as error:
            raise CallboardError(
                "outcome_unknown",
                f"the ref {name!r} was moved, but could not be made durable: {error.strerror}",
                "read it again and look for what was written before trying again",
                {"ref": name},
            ) from error

    def _sync_folder(self, folder: Path) -> None:
        try:
            sync_folder(folder)
        except FileNotFoundError:
            # Git drops the folder once it has taken the ref into `packed-refs`, which lies here.
            sync_folder(self._common_dir)


def check_name(name: str) -> None:
    """Refuse a name that is neither `HEAD` nor a well-formed `refs/…`."""
    try:
        plain = name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _invalid(name, "it is not valid Unicode") from error
    if name == "HEAD":
        return
    if not plain.startswith(b"refs/") or not check_ref_format(Ref(plain[5:])):
        raise _invalid(name, "Git does not allow such a name")
    longest = max(len(part) for part in plain.split(b"/"))
    if longest > _MAX_PART_BYTES:
        found = f"a part of it is {longest} bytes long, and Git can lock at most {_MAX_PART_BYTES}"
        raise _invalid(name, found)


def _invalid(name: str, found: str) -> CallboardError:
    return CallboardError(
        "ref_invalid",
        f"the ref {name!r} cannot be used: {found}",
        "choose another name, or repair the ref",
        {"ref": name.encode("utf-8", "replace").decode("utf-8")},
    )


def _conflict(name: str, other: str | None) -> CallboardError:
    existing = other or "another ref"
    return CallboardError(
        "ref_conflict",
        f"the ref {name!r} cannot stand beside the existing {existing!r}",
        "choose another name, or remove the other ref",
        {"ref": name, "existing": existing},
    )


def _locked(name: str, lock: Path, *, stale: bool) -> CallboardError:
    hint = "try again"
    if stale:
        hint = f"if no Git process is running, delete {str(lock)!r} and try again"
    return CallboardError(
        "ref_locked",
        f"the ref {name!r} is locked by {str(lock)!r}",
        hint,
        {"ref": name, "lock": str(lock), "stale": stale},
    )


def _link(pending: Path, lock: Path, contents: bytes) -> bool:
    """Take Git's lock with its contents already in it; False when somebody holds it."""
    try:
        os.link(pending, lock)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _create(lock, contents)
    return True


def _create(lock: Path, contents: bytes) -> bool:
    """The same where the file system has no hard links."""
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return False
    try:
        write_synced(descriptor, contents)
    except BaseException:
        lock.unlink(missing_ok=True)
        raise
    return True


def _drop(folder: str) -> None:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        # Git was faster.
        return


def _age_ms(lock: Path, pending: Path) -> int:
    """How much older `lock` is than `pending`, both by the clock of their file system."""
    try:
        return (pending.stat().st_mtime_ns - lock.stat().st_mtime_ns) // 1_000_000
    except FileNotFoundError:
        return 0
