"""Trees and commits: looking a path up, and making a commit that replaces one file.

Every other entry of a tree is kept as it stands. A commit never carries the user's identity.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dulwich.errors import ObjectFormatException
from dulwich.objects import ObjectID, Tree, parse_tree

from callboard.board.storage.objects import Objects
from callboard.board.storage.refusals import object_corrupt
from callboard.errors import CallboardError

IDENTITY = b"Callboard <callboard@callboard.invalid>"
"""Author and committer of every ledger commit; who acted is said by the records themselves."""

_META_LIMIT_BYTES = 16 * 1024 * 1024
_MESSAGE_LIMIT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit as read back: the ids of its tree and of its parents, in order."""

    tree: str
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One entry of a tree: its plain name, Git file mode and object id."""

    name: str
    mode: int
    oid: str

    @property
    def is_file(self) -> bool:
        """Whether this is a regular file, executable or not."""
        return stat.S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        """Whether this is a folder (a tree)."""
        return stat.S_ISDIR(self.mode)


def commit_info(objects: Objects, oid: str) -> CommitInfo:
    """Tree and parents of the commit `oid`; `object_corrupt` when they cannot be told."""
    header = objects.read(oid, "commit", _META_LIMIT_BYTES).partition(b"\n\n")[0]
    trees: list[str] = []
    parents: list[str] = []
    for line in header.split(b"\n"):
        word, _, value = line.partition(b" ")
        if word == b"tree":
            trees.append(value.decode("ascii", "replace"))
        elif word == b"parent":
            parents.append(value.decode("ascii", "replace"))
        else:
            break
    if len(trees) != 1 or not all(map(objects.is_oid, (*trees, *parents))):
        raise object_corrupt(oid, "its header names no tree or parents")
    return CommitInfo(trees[0], tuple(parents))


def tree_entries(objects: Objects, oid: str) -> tuple[TreeEntry, ...]:
    """The entries of the tree `oid`, in its own order."""
    data = objects.read(oid, "tree", _META_LIMIT_BYTES)
    try:
        return tuple(
            TreeEntry(name.decode("utf-8", "surrogateescape"), mode, oid_hex.decode("ascii"))
            for name, mode, oid_hex in parse_tree(data, len(oid) // 2)
        )
    except (ObjectFormatException, ValueError) as error:
        raise object_corrupt(oid, "it is not a whole tree") from error


def find_entry(objects: Objects, tree: str, parts: Sequence[str]) -> TreeEntry | None:
    """The entry at the path `parts` below `tree`; None when there is none."""
    entry = TreeEntry("", stat.S_IFDIR, tree)
    for part in parts:
        if not entry.is_folder:
            return None
        found = [item for item in tree_entries(objects, entry.oid) if item.name == part]
        if not found:
            return None
        entry = found[0]
    return entry


def path_parts(path: str) -> tuple[str, ...]:
    """The parts of `path`, relative to the root; `path_invalid` when it could leave it."""
    parts = tuple(path.split("/"))
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise CallboardError(
            "path_invalid",
            f"{path!r} is not a plain path below the repository's root",
            "use names joined by '/', without '.', '..' or empty parts",
            {"path": path.encode("utf-8", "replace").decode("utf-8")},
        )
    return parts


class Revision(NamedTuple):
    """A commit to be stored: `previous` is the blob the file was before, or None."""

    tree: bytes
    commit: bytes
    commit_oid: str
    tree_oid: str
    previous: str | None


def revise(
    objects: Objects, parent: str | None, name: str, blob: str, *, message: str, at_s: int
) -> Revision:
    """A commit on `parent` whose tree differs only in the top-level file `name`.

    The file's mode is kept; a new file is an ordinary one. `at_s` is Unix seconds, stored in
    UTC. Nothing is written.
    """
    mode, previous = 0o100644, None
    entries = () if parent is None else tree_entries(objects, commit_info(objects, parent).tree)
    for entry in entries:
        if entry.name == name:
            mode, previous = entry.mode, entry.oid
    tree_data = _tree([*entries, TreeEntry(name, mode, blob)])
    tree_oid = objects.name("tree", [tree_data])
    commit = _commit(tree_oid, parent, message, at_s)
    return Revision(tree_data, commit, objects.name("commit", [commit]), tree_oid, previous)


class Graft(NamedTuple):
    """A commit to be stored with the trees it needs, each kind and contents, children first."""

    made: tuple[tuple[str, bytes], ...]
    commit_oid: str
    tree_oid: str


def graft(
    objects: Objects, base: str, parts: Sequence[str], blob: str, *, message: str, at_s: int
) -> Graft:
    """A commit on `base` whose tree differs in the ordinary file at the path `parts` alone.

    Folders that the path lacks are made. Raises `path_taken` as `folders_on` does. Nothing is
    written.
    """
    folders = folders_on(objects, base, parts)
    made: list[tuple[str, bytes]] = []
    mode, oid = 0o100644, blob
    for entries, part in zip(reversed(folders), reversed(parts), strict=True):
        kept = [one for one in entries if one.name != part]
        data = _tree([*kept, TreeEntry(part, mode, oid)])
        made.append(("tree", data))
        mode, oid = stat.S_IFDIR, objects.name("tree", [data])
    commit = _commit(oid, base, message, at_s)
    return Graft((*made, ("commit", commit)), objects.name("commit", [commit]), oid)


def folders_on(objects: Objects, base: str, parts: Sequence[str]) -> list[tuple[TreeEntry, ...]]:
    """The entries of each folder on the way to a regular file at `parts`; none of one not there.

    Raises `path_taken` where the way leads below a file, or to something that is no regular file.
    """
    folders: list[tuple[TreeEntry, ...]] = []
    tree: str | None = commit_info(objects, base).tree
    for place, part in enumerate(parts):
        folders.append(() if tree is None else tree_entries(objects, tree))
        entry = next((one for one in folders[-1] if one.name == part), None)
        is_last = place == len(parts) - 1
        if entry is not None and not (entry.is_file if is_last else entry.is_folder):
            raise _path_taken("/".join(parts[: place + 1]), entry, base)
        tree = None if entry is None else entry.oid
    return folders


def sole_difference(
    objects: Objects, before: str | None, after: str, parts: Sequence[str]
) -> TreeEntry | None:
    """What stands at the path `parts` of the tree `after`; None where nothing does, or where
    `after` differs from the tree `before` (None: an empty one) anywhere else."""
    name, rest = parts[0], parts[1:]
    old = () if before is None else tree_entries(objects, before)
    new = tree_entries(objects, after)
    if [one for one in old if one.name != name] != [one for one in new if one.name != name]:
        return None
    was = next((one for one in old if one.name == name), None)
    found = [one for one in new if one.name == name]
    if len(found) != 1 or not rest:
        return found[0] if len(found) == 1 else None
    if not found[0].is_folder or (was is not None and not was.is_folder):
        return None
    return sole_difference(objects, None if was is None else was.oid, found[0].oid, rest)


def _path_taken(path: str, entry: TreeEntry, commit: str) -> CallboardError:
    if entry.is_folder:
        found = "a folder"
    elif entry.is_file:
        found = "a file"
    else:
        found = "a symbolic link" if stat.S_ISLNK(entry.mode) else "a submodule"
    return CallboardError(
        "path_taken",
        f"{path!r} is {found} in commit {commit[:12]}, so no file can be put there",
        "name another path, or another commit to begin from",
        {"path": path, "found": found, "commit": commit},
    )


def _tree(entries: Sequence[TreeEntry]) -> bytes:
    tree = Tree()
    for entry in entries:
        tree.add(_encoded(entry.name), entry.mode, ObjectID(entry.oid.encode("ascii")))
    return tree.as_raw_string()


def _commit(tree_oid: str, parent: str | None, message: str, at_s: int) -> bytes:
    stamp = IDENTITY + b" %d +0000\n" % max(at_s, 0)
    lines = [b"tree " + tree_oid.encode("ascii") + b"\n"]
    if parent is not None:
        lines.append(b"parent " + parent.encode("ascii") + b"\n")
    lines += [b"author " + stamp, b"committer " + stamp, b"\n", _message(message)]
    return b"".join(lines)


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _message(message: str) -> bytes:
    """`message` as Git stores it: bounded UTF-8 without NUL, ending in one newline."""
    text = message.replace("\0", " ").strip() or "Append to the ledger"
    data = text.encode("utf-8", "replace")[:_MESSAGE_LIMIT_BYTES]
    return data.decode("utf-8", "ignore").encode("utf-8") + b"\n"
