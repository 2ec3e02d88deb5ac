"""A private clone of the user's repository at one commit, in which one run works.

It has a `.git` of its own and reads the user's objects where they lie; it has no remote, no
branch, no hook and no credential. The user's repository is only ever read here: nothing in it is
registered, configured or written.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from callboard.board.outputs.worktree import BASE_REF
from callboard.errors import CallboardError
from callboard.files import read_bounded
from callboard.git import Git

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CHECKOUT_S = 1_800.0
_ALTERNATES_DEPTH = 5
_ALTERNATES_BYTES = 64 * 1024
_SHALLOW_BYTES = 16 * 1024 * 1024

# Written into the clone for the worker's own git, which has no other configuration to go by.
_CLONE_SETTINGS = (
    ("core.logAllRefUpdates", "true"),
    ("core.fsmonitor", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    # An empty name forgets the helpers that other configuration names.
    ("credential.helper", ""),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("user.name", "Callboard worker"),
    ("user.email", "worker@callboard.invalid"),
)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A private clone: its folder, the user's Git common folder, and the commit it began at.

    Holds only what the caller can record and give back later; all paths are absolute.
    """

    folder: Path
    source: Path
    commit: str

    @property
    def git_dir(self) -> Path:
        """The clone's `.git`. The worker rules it: nothing trusted reads its configuration."""
        return self.folder / ".git"


def create(git: Git, source: Path, commit: str, folder: Path) -> Workspace:
    """Clone the repository of the Git common folder `source` at `commit` into the new `folder`.

    Works for bare, linked, shallow and sha256 repositories. Raises `CallboardError`
    `workspace_exists`, `commit_missing`, `workspace_failed` or the codes of `Git.run`; a refusal
    leaves nothing behind.
    """
    source, folder = source.absolute(), folder.absolute()
    _require_commit(git, source, commit)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise CallboardError(
            "workspace_exists",
            f"the folder {str(folder)!r} exists already",
            "give each run a folder of its own",
            {"folder": str(folder)},
        ) from None
    except OSError as error:
        raise _failed(folder, f"cannot be made: {error.strerror}") from error
    workspace = Workspace(folder, source, commit)
    with contextlib.ExitStack() as cleanup, disk_faults(folder):
        cleanup.callback(remove_tree, folder)
        _populate(git, workspace)
        cleanup.pop_all()
    return workspace


@contextlib.contextmanager
def disk_faults(folder: Path) -> Iterator[None]:
    """Turn an `OSError` of the file system below `folder` into `workspace_failed`."""
    try:
        yield
    except OSError as error:
        raise _failed(folder, f"met a fault of the file system: {error.strerror}") from error


def object_format(commit: str) -> str:
    """The hash a repository uses, told by the length of its commit ids."""
    return "sha256" if len(commit) == 64 else "sha1"


def initialise(git: Git, folder: Path, commit: str, *, bare: bool) -> Path:
    """A new repository in `folder` with the object format of `commit`; returns its Git folder.

    No template, hence no hooks and no excluded files.
    """
    arguments = ["init", "--quiet", "--template=", f"--object-format={object_format(commit)}"]
    arguments += ["--bare", str(folder)] if bare else [str(folder)]
    settings = ("init.defaultBranch=callboard-none", "init.defaultRefFormat=files")
    git.run(arguments, git_dir=None, settings=settings)
    return folder if bare else folder / ".git"


def borrow_objects(git_dir: Path, *sources: Path) -> None:
    """Let `git_dir` read the objects of the Git folders `sources`, and know where they are cut.

    All borrowed stores are named outright, as some versions of Git follow relative names only
    one step.
    """
    stores: list[Path] = []
    for source in sources:
        stores += [store for store in _object_stores(source / "objects") if store not in stores]
    lines = b"".join(_alternate_line(store) for store in stores)
    (git_dir / "objects" / "info").mkdir(exist_ok=True)
    (git_dir / "objects" / "info" / "alternates").write_bytes(lines)
    for source in sources[:1]:
        # A shallow repository lists the commits whose parents it does not have.
        with contextlib.suppress(FileNotFoundError):
            if (source / "shallow").stat().st_size:
                cut = read_bounded(source / "shallow", _SHALLOW_BYTES, what="the shallow file")
                (git_dir / "shallow").write_bytes(cut)


def remove_tree(folder: Path) -> None:
    """Delete `folder` and all in it, also what its owner made unwritable; follows no link."""
    if not _is_there(folder):
        return
    # Most trees go at once; only what is left of the others is walked for lost rights.
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
        return
    _unlock(folder)
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise _failed(folder, f"cannot be removed: {error.strerror}") from error


def _is_there(folder: Path) -> bool:
    """Whether there is a folder to remove; anything else of that name is refused."""
    if not os.path.lexists(folder):
        return False
    if folder.is_symlink() or not folder.is_dir():
        raise _failed(folder, "is not a folder, so it is left alone")
    return True


def _unlock(folder: Path) -> None:
    """Give the owner all rights to `folder` and the folders in it, as far as that is possible."""
    with contextlib.suppress(OSError):
        folder.chmod(stat.S_IRWXU)
    for parent, folders, _files in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, stat.S_IRWXU)


def discard(workspace: Workspace) -> None:
    """Remove the clone with whatever it holds; nothing where it is gone already.

    Moved aside first: a removal that is cut short must not look like a work tree with deletions.
    """
    folder = workspace.folder
    for remains in folder.parent.glob(f".{_escaped(folder.name)}.*.removed"):
        remove_tree(remains)
    if not _is_there(folder):
        return
    resolved = folder.resolve()
    if workspace.source.resolve().is_relative_to(resolved):
        raise _failed(folder, "holds the user's repository, so it is left alone")
    aside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.removed")
    try:
        folder.rename(aside)
    except OSError as error:
        raise _failed(folder, f"cannot be moved aside: {error.strerror}") from error
    remove_tree(aside)


def _populate(git: Git, workspace: Workspace) -> None:
    clone = initialise(git, workspace.folder, workspace.commit, bare=False)
    borrow_objects(clone, workspace.source)
    hooks = clone / "hooks"
    hooks.mkdir(exist_ok=True)
    _configure(clone, (*_CLONE_SETTINGS, ("core.hooksPath", str(hooks))))
    git.run(["update-ref", BASE_REF, workspace.commit], git_dir=clone)
    git.run(["update-ref", "--no-deref", "HEAD", workspace.commit], git_dir=clone)
    try:
        git.run(
            ["read-tree", "--reset", "-u", workspace.commit],
            git_dir=clone,
            work_tree=workspace.folder,
            timeout_s=_CHECKOUT_S,
        )
    except CallboardError as error:
        if error.code != "git_failed":
            raise
        raise CallboardError(
            "workspace_failed",
            f"commit {workspace.commit} cannot be checked out completely",
            "its files may be missing here (a partial clone?): fetch them, and check the disk",
            error.details,
        ) from error


def _configure(clone: Path, settings: Iterable[tuple[str, str]]) -> None:
    """Add `section.name` settings to the clone's configuration."""
    with (clone / "config").open("a", encoding="utf-8", errors="surrogateescape") as stream:
        for key, value in settings:
            section, name = key.split(".")
            quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            stream.write(f'[{section}]\n\t{name} = "{quoted}"\n')


def _require_commit(git: Git, source: Path, commit: str) -> None:
    if not _COMMIT.fullmatch(commit):
        raise CallboardError(
            "commit_missing",
            f"{commit[:80]!r} is not a full commit id",
            "give 40 or 64 lower-case hex digits",
        )
    # An object of another kind, or none, makes cat-file fail; its words do not matter.
    found = git.run(["cat-file", "-e", f"{commit}^{{commit}}"], git_dir=source, statuses=range(256))
    if found.status != 0:
        raise CallboardError(
            "commit_missing",
            f"the repository {str(source)!r} holds no commit {commit}",
            "fetch it, or choose a revision that is there",
            {"commit": commit, "repository": str(source)},
        )


def _object_stores(objects: Path) -> list[Path]:
    """`objects` and the stores it borrows from, in the order of their names, each once."""
    found = [objects.resolve()]
    layer = list(found)
    for _ in range(_ALTERNATES_DEPTH):
        layer = [store for known in layer for store in _borrowed(known) if store not in found]
        found += dict.fromkeys(layer)
    return found


def _borrowed(objects: Path) -> list[Path]:
    path = objects / "info" / "alternates"
    if not path.exists():
        return []
    text = os.fsdecode(read_bounded(path, _ALTERNATES_BYTES, what="the alternates file"))
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    return [(objects / _unquoted(line)).resolve() for line in lines]


def _unquoted(line: str) -> str:
    if not (line.startswith('"') and line.endswith('"') and len(line) > 1):
        return line
    raw = os.fsencode(line[1:-1])
    plain = re.sub(
        rb"\\([0-7]{3}|.)",
        lambda match: (
            bytes([int(match[1], 8)]) if len(match[1]) == 3 else _ESCAPES.get(match[1], match[1])
        ),
        raw,
    )
    return os.fsdecode(plain)


_ESCAPES = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
    b'"': b'"', b"\\": b"\\",
}  # fmt: skip


def _alternate_line(store: Path) -> bytes:
    """One store as Git reads it: in C quotes where the plain name could be misread."""
    name = os.fsencode(store)
    if not name.startswith(b'"') and b"\n" not in name:
        return name + b"\n"
    quoted = b"".join(
        bytes([byte]) if 32 <= byte < 127 and byte not in b'"\\' else b"\\%03o" % byte
        for byte in name
    )
    return b'"' + quoted + b'"\n'


def _escaped(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _failed(folder: Path, what: str) -> CallboardError:
    return CallboardError(
        "workspace_failed",
        f"the workspace {str(folder)!r} {what}",
        "check the folder, its permissions and the free space",
        {"folder": str(folder)},
    )
