"""Where the symbolic links of a tree lead, told from the tree alone.

A link is followed through the other links of its tree, as whoever checks it out will follow it; no
file system is asked. What is no link counts as a folder, whether it is there or not, so that
nothing but a change of links changes where a link leads. Nobody is led above the root, or into a
Git folder, by a link that a patch makes or turns.
"""

from __future__ import annotations

import functools
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import IO

from callboard.errors import CallboardError
from callboard.git import Git

SYMLINK = "120000"
_LISTED = re.compile(rb"120000 blob ([0-9a-f]+)\t(.+)", re.DOTALL)
_CHUNK_BYTES = 1 << 20
# The same few names make up most paths.
_NAMES = 16_384
# Code points that HFS+ passes over in names.
_UNSEEN = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)
# Git's own list: other systems take these names for `.git`, or a stream or a file in it.
_GIT_NAME = re.compile(r"(?:\.git|git~1)[. ]*(?::.*)?", re.DOTALL)

OUT = "leads out of the work tree"
INTO_GIT = "leads into a Git folder"
Wrong = tuple[str, bytes]
"""What is wrong with a link, and a digest of where it leads."""


def wrong_links(links: Mapping[bytes, bytes], *, same_case: bool = False) -> dict[bytes, Wrong]:
    """The links, path -> target, that lead out of their tree or into a Git folder.

    With `same_case` names count as one as on systems that tell no upper from lower case. Links that
    lead in a circle lead nowhere, and each is followed once, whatever the others make of it.
    """
    return _Tree(links, _folded if same_case else bytes).wrong()


def read_links(
    git: Git, git_dir: Path, tree: str, *, max_links: int, max_bytes: int
) -> dict[bytes, bytes]:
    """The links of a tree or commit, path -> target; `max_bytes` is of targets, together.

    Raises `CallboardError` `patch_limit`, `patch_refused` where one is not there to be read, or the
    codes of `Git.run`.
    """
    with tempfile.TemporaryFile(dir=git_dir) as listing:
        git.run(["ls-tree", "-r", "-z", tree], git_dir=git_dir, stdout=listing)
        listing.seek(0)
        found: dict[bytes, bytes] = {}
        for record in _records(listing):
            if match := _LISTED.fullmatch(record):
                found[match[2]] = match[1]
                if len(found) > max_links:
                    raise _too_many(max_links, max_bytes)
    ids = list(dict.fromkeys(found.values()))
    sizes = _sizes(git, git_dir, ids)
    if sum(sizes[one] for one in found.values()) > max_bytes:
        raise _too_many(max_links, max_bytes)
    targets = _targets(git, git_dir, ids, sizes)
    return {path: targets[one] for path, one in found.items()}


class _Place:
    """A name in the tree, or where a link leads; `target` where a link lies there."""

    __slots__ = ("_digest", "below", "name", "parent", "target")

    def __init__(self, parent: _Place | None, name: bytes) -> None:
        self.parent = parent
        self.name = name
        self.below: dict[bytes, _Place] = {}
        self.target: bytes | None = None
        self._digest = b""

    def digest(self) -> bytes:
        """The same for the same path, however deep it is."""
        unknown: list[_Place] = []
        one: _Place | None = self
        while one is not None and not one._digest:
            unknown.append(one)
            one = one.parent
        known = b"" if one is None else one._digest
        for place in reversed(unknown):
            known = place._digest = sha256(known + b"/" + place.name).digest()
        return known


class _Tree:
    """The links of one tree, and where those that were followed lead."""

    def __init__(self, links: Mapping[bytes, bytes], same: Callable[[bytes], bytes]) -> None:
        self._same = same
        self._root = _Place(None, b"")
        self._ends: dict[_Place, _Place] = {}
        self._wrong: dict[_Place, Wrong] = {}
        self._links: dict[bytes, _Place] = {}
        for path, target in links.items():
            place = self._root
            for name in path.split(b"/"):
                key = same(name)
                if key not in place.below:
                    place.below[key] = _Place(place, name)
                place = place.below[key]
            place.target = target
            self._links[path] = place

    def wrong(self) -> dict[bytes, Wrong]:
        for place in self._links.values():
            if place not in self._ends and place not in self._wrong:
                self._follow(place)
        return {
            path: self._wrong[place] for path, place in self._links.items() if place in self._wrong
        }

    def _follow(self, link: _Place) -> None:
        """Walk to the end of a link, and by the way of those that it passes through.

        What is left of the way is a stack of names, and of the links that end between them.
        """
        way: list[bytes | _Place] = []
        begun: set[_Place] = set()
        here = self._enter(link, way, begun)
        while way and here is not None:
            step = way.pop()
            if isinstance(step, _Place):
                self._ends[step] = here
                begun.discard(step)
            elif step == b"..":
                if here.parent is None:
                    self._spoil(way, OUT, b"..")
                here = here.parent
            elif is_git_name(step):
                self._spoil(way, INTO_GIT, here.digest() + step)
            elif step not in (b"", b"."):
                here = self._step(here, step, way, begun)

    def _step(
        self, here: _Place, name: bytes, way: list[bytes | _Place], begun: set[_Place]
    ) -> _Place | None:
        found = here.below.get(self._same(name))
        if found is None:
            return _Place(here, name)
        if found.target is None or found in begun:
            return found
        if found in self._wrong:
            self._spoil(way, *self._wrong[found])
            return None
        if found in self._ends:
            return self._ends[found]
        return self._enter(found, way, begun)

    def _enter(self, link: _Place, way: list[bytes | _Place], begun: set[_Place]) -> _Place | None:
        assert link.target is not None
        begun.add(link)
        way.append(link)
        if link.target.startswith(b"/"):
            self._spoil(way, OUT, link.target)
            return None
        way.extend(reversed(link.target.split(b"/")))
        return link.parent

    def _spoil(self, way: list[bytes | _Place], what: str, where: bytes) -> None:
        """All links whose end is still to come lead to `where`, and on from there."""
        rest: list[bytes] = []
        while way:
            step = way.pop()
            if isinstance(step, _Place):
                where = sha256(b"/".join([where, *rest])).digest()
                self._wrong[step] = (what, where)
                rest = []
            else:
                rest.append(step)


@functools.lru_cache(maxsize=_NAMES)
def is_git_name(name: bytes) -> bool:
    """Whether Git, on any system that it guards, takes a name for that of its own folder."""
    text = name.decode("utf-8", "surrogateescape").translate(_UNSEEN).casefold()
    return any(_GIT_NAME.fullmatch(part) is not None for part in text.split("\\"))


@functools.lru_cache(maxsize=_NAMES)
def _folded(name: bytes) -> bytes:
    text = name.decode("utf-8", "surrogateescape").translate(_UNSEEN)
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())
    return folded.encode("utf-8", "surrogateescape")


def _records(listing: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while chunk := listing.read(_CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole


def _sizes(git: Git, git_dir: Path, ids: Iterable[bytes]) -> dict[bytes, int]:
    lines = b"".join(one + b"\n" for one in ids)
    asked = ["cat-file", "--batch-check=%(objectname) %(objectsize)"]
    answer = git.run(asked, git_dir=git_dir, stdin=lines).output
    sizes = {}
    for line in answer.splitlines():
        name, _, size = line.partition(b" ")
        if not size.isdigit():
            raise CallboardError(
                "patch_refused",
                f"the target of a link, object {name.decode('ascii')}, is not in the repository",
                "run git fsck there, or fetch it",
            )
        sizes[name] = int(size)
    return sizes


def _targets(
    git: Git, git_dir: Path, ids: Iterable[bytes], sizes: Mapping[bytes, int]
) -> dict[bytes, bytes]:
    lines = b"".join(one + b"\n" for one in ids)
    answer = git.run(["cat-file", "--batch=%(objectname)"], git_dir=git_dir, stdin=lines).output
    targets = {}
    at = 0
    for one in ids:
        start = at + len(one) + 1
        at = start + sizes[one] + 1
        targets[one] = answer[start : at - 1]
    return targets


def _too_many(max_links: int, max_bytes: int) -> CallboardError:
    return CallboardError(
        "patch_limit",
        f"the tree holds more than {max_links} links, or {max_bytes} bytes of where they lead",
        "change no link: only then they need not be followed",
        {"limit_links": max_links, "limit_link_bytes": max_bytes},
    )
