"""The storage package's refusals that several of its modules share.

Each names the path, object or revision that was met and what a person does next; none holds file
contents.
"""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from callboard.errors import CallboardError

UNWRITABLE = frozenset({"ref_locked", "repository_unwritable", "storage_failed"})
"""Codes of a machine that does not let the repository be written: what was to be written was not
judged, and a person has to put something right."""

_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def typed_io(what: str, path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into `repository_unwritable` or `storage_failed`."""
    try:
        yield
    except OSError as error:
        raise io_refused(what, path, error) from error


def io_refused(what: str, path: Path, error: OSError) -> CallboardError:
    """The refusal for `error`, met while doing `what` at `path`."""
    if error.errno in _NOT_ALLOWED:
        return CallboardError(
            "repository_unwritable",
            f"cannot {what} {str(path)!r}: {error.strerror}",
            "give this user access to the repository, or use another one",
            {"path": str(path)},
        )
    hint = "free space or repair the disk, then try again"
    if error.errno == errno.ENOENT:
        hint = "something removed it meanwhile; check that the repository stands, then try again"
    elif error.errno == errno.ENAMETOOLONG:
        hint = "choose a shorter name, or move the repository to a shorter path"
    return CallboardError(
        "storage_failed",
        f"cannot {what} {str(path)!r}: {error.strerror or error}",
        hint,
        {"path": str(path), "errno": errno.errorcode.get(error.errno or 0, "unknown")},
    )


def base_mismatch(revision: str | None) -> CallboardError:
    """The refusal of a base whose bytes are not those of its revision."""
    return CallboardError(
        "append_base_invalid",
        f"the base's bytes are not the ledger at {revision or 'an absent branch'}",
        "append to a tip that this store has read",
        {"revision": revision},
    )


def branch_gone(where: str, branch: str, last: str, note: Path) -> CallboardError:
    """The refusal of a board whose branch is gone; `note` is the file that tells it was here."""
    return CallboardError(
        "ledger_invalid",
        f"{where} is gone: the branch was at commit {last} when the board was last written here",
        f"set it back: git branch {shlex.quote(branch)} {last} (or at a later commit, if `git fsck "
        f"--lost-found` knows one); for a new board instead, delete {str(note)!r}",
        {
            "cause": "history_replaced",
            "line": 1,
            "byte": 0,
            "where": where,
            "seen": last,
            "found": None,
        },
    )


def branch_set_back(where: str, branch: str, last: str, found: str, note: Path) -> CallboardError:
    """The refusal of a board whose branch does not lead back to what was written here last."""
    return CallboardError(
        "ledger_invalid",
        f"{where} is at {found}, which does not lead back to commit {last}, where it was when the "
        "board was last written here",
        f"set it back: git branch -f {shlex.quote(branch)} {last}; to go on with what is there now "
        f"instead, and do again what it has forgotten, delete {str(note)!r}",
        {
            "cause": "history_replaced",
            "line": 1,
            "byte": 0,
            "where": where,
            "seen": last,
            "found": found,
        },
    )


def nothing_to_replace() -> CallboardError:
    """The refusal to replace a ledger that is not there."""
    return CallboardError(
        "append_base_invalid",
        "the base is an absent branch, so there is no ledger to replace",
        "replace a tip that this store has read",
        {"revision": None},
    )


def repository_invalid(path: Path, found: str, hint: str) -> CallboardError:
    """The refusal of a repository that is there but cannot be used as it stands."""
    return CallboardError(
        "repository_invalid",
        f"the repository at {str(path)!r} cannot be used: {found}",
        hint,
        {"path": str(path)},
    )


def object_corrupt(oid: str, found: str) -> CallboardError:
    """The refusal of a stored object whose bytes are not what its name promises."""
    return CallboardError(
        "object_corrupt",
        f"the Git object {oid} is damaged: {found}",
        "run `git fsck`, then restore the object from a backup or another clone",
        {"object": oid},
    )


def object_missing(oid: str) -> CallboardError:
    """The refusal of an object that the repository names but does not hold."""
    return CallboardError(
        "object_missing",
        f"the Git object {oid} is not in this repository",
        "fetch it from the remote (a partial or damaged clone lacks objects)",
        {"object": oid},
    )


def object_too_large(oid: str, size_bytes: int | None, limit_bytes: int) -> CallboardError:
    """The refusal of an object that is larger, or made from more, than the reader allows."""
    said = "larger" if size_bytes is None else f"{size_bytes} bytes, more"
    return CallboardError(
        "resource_limit",
        f"the Git object {oid} is {said} than the {limit_bytes} bytes allowed",
        f"keep it at or under {limit_bytes} bytes",
        {"object": oid, "limit_bytes": limit_bytes},
    )
