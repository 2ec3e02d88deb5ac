"""What git says that differs from HEAD in a repository, without running a program of the user's.

Hooks, filters, file system monitors and external diffs stay unused, and no index is refreshed:
plumbing commands only, by argument list. It reads no file of the work tree itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from callboard.errors import CallboardError
from callboard.files import read_bounded
from callboard.git import Git

IGNORED = b".callboard/layers"
"""The machine's own files are no part of what it works on."""

GITLINK = b"160000"
_LISTING_BYTES = 512 * 1024 * 1024
_NOTHING = frozenset(b"0")
# Whatever the configuration says, modes, links and all times count.
_SETTINGS = (
    "core.bare=false",
    "core.checkStat=default",
    "core.fileMode=true",
    "core.ignoreStat=false",
    "core.symlinks=true",
    "core.trustctime=true",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What the index has at a path. Mode and object id as git spells them."""

    mode: bytes
    oid: bytes


@dataclass(frozen=True, slots=True)
class Changes:
    """All that may differ from `head`; paths are bytes below the repository.

    `staged`: what the index has otherwise than HEAD, None for nothing. `unmerged`: the lines of
    paths with several versions. `suspects`: files of the index that may differ from it, with
    whether one may be absent. `untracked`: neither known nor ignored; a repository ends in `/`.
    """

    head: str | None
    staged: tuple[tuple[bytes, Entry | None], ...]
    unmerged: tuple[bytes, ...]
    suspects: tuple[tuple[bytes, Entry | None, bool], ...]
    untracked: tuple[bytes, ...]

    def __len__(self) -> int:
        return sum(map(len, (self.staged, self.unmerged, self.suspects, self.untracked)))


def git_dir_of(folder: Path) -> Path | None:
    """Where the repository whose work tree is `folder` is kept; None where it is none.

    Nothing above `folder` is looked at. Raises `file_unreadable` where that is not allowed.
    """
    found = folder / ".git"
    try:
        if not found.is_file():
            return found if (found / "HEAD").is_file() else None
    except OSError as error:
        raise CallboardError(
            "file_unreadable",
            f"{str(found)!r} cannot be looked at: {error.strerror}",
            "check the folder and its permissions",
        ) from error
    try:
        line = read_bounded(found, 8192, what="the file").decode("utf-8", "surrogateescape")
    except CallboardError:
        return None
    if not line.startswith("gitdir: "):
        return None
    return (folder / line.removeprefix("gitdir: ").rstrip("\n")).resolve()


def head_of(git: Git, git_dir: Path) -> str | None:
    """The commit that is checked out; None before the first."""
    answer = git.run(
        ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"],
        git_dir=git_dir,
        statuses=(0, 1, 128),
    )
    return answer.output.decode("ascii").strip() if answer.status == 0 else None


class Lister:
    """Lists the changes of the repository `git_dir` with the work tree `folder`."""

    def __init__(self, git: Git, git_dir: Path, folder: Path) -> None:
        self._git = git
        self._git_dir = git_dir
        self._folder = folder

    def changes(self) -> Changes:
        """What differs now. Raises the codes of `Git.run`."""
        head = head_of(self._git, self._git_dir)
        unfiltered = self._unfiltered()
        index = dict[bytes, Entry]()
        unmerged, hidden = list[bytes](), dict[bytes, bool]()
        for line in self._lines(["ls-files", "-z", "--stage", "-v"], unfiltered):
            facts, _, path = line.partition(b"\t")
            tag, mode, oid, stage = facts.split(b" ")
            if _is_ours(path):
                continue
            if stage != b"0":
                unmerged.append(line)
                continue
            index[path] = Entry(mode, oid)
            # `assume-unchanged` and `skip-worktree` keep git from looking.
            if tag.islower() or tag == b"S":
                hidden[path] = tag in b"sS"
        base = head or self._empty_tree()
        staged = self._differing(["diff-index", "--cached", *_RAW, base, "--"], unfiltered)
        modified = self._differing(["diff-files", *_RAW], unfiltered)
        suspects = {path: (index.get(path), False) for path, _ in modified}
        suspects |= {path: (index[path], may_lack) for path, may_lack in hidden.items()}
        return Changes(
            head=head,
            staged=tuple(sorted(dict(staged).items())),
            unmerged=tuple(sorted(unmerged)),
            suspects=tuple((path, *found) for path, found in sorted(suspects.items())),
            untracked=tuple(sorted(filter(_is_other, self._lines(_OTHERS, unfiltered)))),
        )

    def _differing(
        self, arguments: list[str], unfiltered: dict[str, str]
    ) -> Iterator[tuple[bytes, Entry | None]]:
        """The paths of a raw comparison, each with what its second side has."""
        lines = iter(self._lines(arguments, unfiltered))
        for facts, path in zip(lines, lines, strict=True):
            _, mode, _, oid, _ = facts.split(b" ")
            if not _is_ours(path):
                yield path, None if set(mode) == _NOTHING else Entry(mode, oid)

    def _lines(self, arguments: list[str], variables: dict[str, str]) -> Iterable[bytes]:
        answer = self._git.run(
            arguments,
            git_dir=self._git_dir,
            work_tree=self._folder,
            settings=_SETTINGS,
            variables=variables,
            limit_bytes=_LISTING_BYTES,
        )
        return answer.output.split(b"\0")[:-1]

    def _empty_tree(self) -> str:
        return self._git.text(["hash-object", "-t", "tree", "--stdin"], git_dir=self._git_dir)

    def _unfiltered(self) -> dict[str, str]:
        """The variables that take their programs away from all filters there are."""
        answer = self._git.run(
            ["config", "-z", "--name-only", "--get-regexp", r"^filter\."],
            git_dir=self._git_dir,
            statuses=(0, 1),
        )
        names = {_text(line) for line in answer.output.split(b"\0")[:-1]}
        drivers = {name.rpartition(".")[0] for name in names}
        pairs = [
            (f"{driver}.{variable}", value)
            for driver in sorted(drivers)
            for variable, value in _NO_FILTER
        ]
        variables = {"GIT_CONFIG_COUNT": str(len(pairs))}
        for number, (name, value) in enumerate(pairs):
            variables[f"GIT_CONFIG_KEY_{number}"] = name
            variables[f"GIT_CONFIG_VALUE_{number}"] = value
        return variables


_RAW = ("--raw", "-z", "--no-abbrev", "--no-renames", "--ignore-submodules=dirty")
_OTHERS = [
    "ls-files", "-z", "--others", "--exclude-standard",
    f"--exclude=/{IGNORED.decode()}/",
]  # fmt: skip
_NO_FILTER = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))


def _text(data: bytes) -> str:
    """Bytes of git as text that turns into the same bytes again."""
    return data.decode("utf-8", "surrogateescape")


def _is_ours(path: bytes) -> bool:
    return path == IGNORED or path.startswith(IGNORED + b"/")


def _is_other(path: bytes) -> bool:
    return not _is_ours(path)
