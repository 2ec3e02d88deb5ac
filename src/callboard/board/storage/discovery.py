"""Finding a Git repository from a path, and reading what its configuration says about storage.

Reads the repository's own files only: never the environment, never the user's or the system's
configuration, never an included file; nothing a configuration says is executed.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path

from dulwich.config import ConfigFile

from callboard.board.storage.refusals import repository_invalid
from callboard.errors import CallboardError
from callboard.files import read_bounded

_CONFIG_LIMIT_BYTES = 1024 * 1024
_POINTER_LIMIT_BYTES = 8192
_FORMATS = ("sha1", "sha256")
# What a repository may declare without changing how objects and refs are read here.
_HARMLESS_EXTENSIONS = (
    b"noop",
    b"noop-v1",
    b"objectformat",
    b"partialclone",
    b"preciousobjects",
    b"relativeworktrees",
    b"worktreeconfig",
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of a repository lie; all paths are absolute and resolved."""

    git_dir: Path
    common_dir: Path
    work_tree: Path | None
    object_format: str
    shared_repository: bytes | None
    origin_url: str | None
    remotes: tuple[str, ...] = ()


def find(path: Path) -> Layout:
    """The repository that `path`, a folder, belongs to, searched upward as Git does.

    Raises `CallboardError` `repository_missing`, or `repository_invalid` for one that is broken
    or declares a format that cannot be read here.
    """
    try:
        start = path.resolve(strict=True)
        if not start.is_dir():
            raise _missing(path, "it is not a folder")
        return _search(path, start)
    except OSError as error:
        raise _missing(path, error.strerror or str(error)) from error
    except (ValueError, RuntimeError) as error:
        raise _missing(path, "it holds a NUL, or its links go in a circle") from error


def _search(asked: Path, start: Path) -> Layout:
    broken: Path | None = None
    for folder in (start, *start.parents):
        dot = folder / ".git"
        if dot.is_file():
            return _open(_pointed_to(dot), folder)
        if dot.is_dir():
            if _is_git_dir(dot):
                return _open(dot.resolve(), folder)
            broken = broken or dot
        elif _is_git_dir(folder):
            return _open(folder, _work_tree_of(folder))
    if broken is not None:
        raise repository_invalid(broken, "HEAD, objects or refs is missing", "run `git init` there")
    raise _missing(asked, "no folder above it holds one")


def _work_tree_of(git_dir: Path) -> Path | None:
    """The checked-out folder of a Git folder that was asked for itself, as far as it tells."""
    if git_dir.name == ".git":
        return git_dir.parent
    pointer = git_dir / "gitdir"
    if not (git_dir / "commondir").is_file() or not pointer.is_file():
        return None
    text = read_bounded(pointer, _POINTER_LIMIT_BYTES, what="the pointer").rstrip(b"\r\n")
    # It names the worktree's `.git` file, as a full path or from the Git folder.
    dot = Path(os.path.normpath(git_dir / os.fsdecode(text)))
    return dot.parent if dot.is_file() else None


def _missing(path: Path, found: str) -> CallboardError:
    return CallboardError(
        "repository_missing",
        f"there is no Git repository at {str(path)!r}: {found}",
        "run `git init`, or name the repository's folder",
        {"path": str(path)},
    )


def _pointed_to(dot: Path) -> Path:
    """The Git folder that a `.git` file names."""
    text = read_bounded(dot, _POINTER_LIMIT_BYTES, what="the pointer").rstrip(b"\r\n")
    if not text.startswith(b"gitdir:"):
        raise repository_invalid(dot, "the file does not say 'gitdir:'", "clone it again")
    target = (dot.parent / os.fsdecode(text[len(b"gitdir:") :].strip())).resolve()
    if not _is_git_dir(target):
        raise repository_invalid(
            dot,
            f"it points to {str(target)!r}, which is no Git folder",
            "run `git worktree repair`",
        )
    return target


def _common(git_dir: Path) -> Path:
    pointer = git_dir / "commondir"
    if not pointer.is_file():
        return git_dir
    text = read_bounded(pointer, _POINTER_LIMIT_BYTES, what="the pointer").rstrip(b"\r\n")
    return (git_dir / os.fsdecode(text)).resolve()


def _is_git_dir(folder: Path) -> bool:
    if not os.path.lexists(folder / "HEAD"):
        return False
    common = _common(folder)
    return (common / "objects").is_dir() and (common / "refs").is_dir()


def _open(git_dir: Path, folder: Path | None) -> Layout:
    common_dir = _common(git_dir)
    config = _read_config(common_dir / "config")
    own = config
    if _flag(config, b"extensions", b"worktreeconfig", common_dir):
        own = _read_config(git_dir / "config.worktree")
    object_format = _object_format(config, common_dir)
    bare = _flag(own, b"core", b"bare", common_dir)
    if own is not config and _get(own, b"core", b"bare") is None:
        bare = _flag(config, b"core", b"bare", common_dir)
    linked = git_dir != common_dir
    work_tree = folder
    if not linked:
        named = _get(own, b"core", b"worktree") or _get(config, b"core", b"worktree")
        if named is not None:
            work_tree = (git_dir / os.fsdecode(named)).resolve()
        elif bare:
            work_tree = None
    url = _get(config, (b"remote", b"origin"), b"url")
    return Layout(
        git_dir=git_dir,
        common_dir=common_dir,
        work_tree=work_tree,
        object_format=object_format,
        shared_repository=_get(config, b"core", b"sharedrepository"),
        origin_url=None if url is None else url.decode("utf-8", "replace"),
        remotes=_remotes(config),
    )


def _read_config(path: Path) -> ConfigFile:
    if not path.exists():
        return ConfigFile()
    data = read_bounded(path, _CONFIG_LIMIT_BYTES, what="the Git configuration")
    try:
        return ConfigFile.from_file(io.BytesIO(data), expand_includes=False)
    except ValueError as error:
        raise repository_invalid(path, f"bad configuration, {error}", "correct the file") from error


def _remotes(config: ConfigFile) -> tuple[str, ...]:
    names = {
        section[1].decode("utf-8", "replace")
        for section in config.sections()
        if len(section) == 2 and section[0] == b"remote"
    }
    return tuple(sorted(names, key=lambda name: (name != "origin", name)))


def _get(config: ConfigFile, section: bytes | tuple[bytes, ...], name: bytes) -> bytes | None:
    try:
        return config.get(section if isinstance(section, tuple) else (section,), name)
    except KeyError:
        return None


def _flag(config: ConfigFile, section: bytes, name: bytes, path: Path) -> bool:
    value = (_get(config, section, name) or b"false").lower()
    if value in (b"true", b"yes", b"on"):
        return True
    if value in (b"false", b"no", b"off"):
        return False
    if value.isdigit():
        return int(value) != 0
    raise repository_invalid(
        path, f"{(section + b'.' + name).decode()} is not a boolean", "correct the configuration"
    )


def _object_format(config: ConfigFile, common_dir: Path) -> str:
    """`sha1` or `sha256`, once every declared extension is known to be harmless."""
    version = (_get(config, b"core", b"repositoryformatversion") or b"0").decode("utf-8", "replace")
    if version not in ("0", "1"):
        raise repository_invalid(
            common_dir,
            f"format version {version}",
            "update Callboard, or use format version 0 or 1",
        )
    name = (_get(config, b"extensions", b"objectformat") or b"sha1").decode("utf-8", "replace")
    if version == "0":
        if name != "sha1":
            raise repository_invalid(common_dir, f"{name} in format version 0", "clone it again")
        return "sha1"
    for extension, value in config.items((b"extensions",)):
        plain = extension.lower()
        if plain == b"refstorage":
            if value.lower() != b"files":
                raise repository_invalid(
                    common_dir,
                    f"refs are kept as {value.decode('utf-8', 'replace')}",
                    "run `git refs migrate --ref-format=files`",
                )
        elif plain not in _HARMLESS_EXTENSIONS:
            raise repository_invalid(
                common_dir,
                f"the extension {extension.decode('utf-8', 'replace')!r} is not known here",
                "update Callboard, or remove the extension",
            )
    if name not in _FORMATS:
        raise repository_invalid(common_dir, f"object format {name}", "use sha1 or sha256")
    return name
