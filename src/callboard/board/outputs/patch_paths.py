"""The paths that a patch may be confined to: plain ones, told apart from each other.

Words about paths only; what lies there is looked at when the commit is made.
"""

from __future__ import annotations

from collections.abc import Iterable

from callboard.errors import CallboardError
from callboard.regular import shown_name

MAX_PATH_BYTES = 1024


def check_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths, sorted, each once, or `patch_path_invalid` for one that is not plain.

    Plain is relative, with `/` between its parts, below the work tree and not in a `.git`.
    """
    found = {path.removesuffix("/") for path in paths}
    for path in found:
        wrong = _fault(path)
        if wrong:
            raise CallboardError(
                "patch_path_invalid",
                f"the path {shown_name(path)!r} {wrong}",
                "name files or folders of the work tree, from its top",
            )
    return tuple(sorted(found))


def overlap(paths: Iterable[str], others: Iterable[str]) -> str | None:
    """A path of the one that lies at, above or below one of the other; None without any."""
    others = tuple(others)
    for path in paths:
        for other in others:
            if contains(path, other) or contains(other, path):
                return path
    return None


def contains(folder: str, path: str) -> bool:
    """Whether `path` is `folder` or lies below it."""
    return path == folder or path.startswith(folder + "/")


def _fault(path: str) -> str:
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if not 1 <= size <= MAX_PATH_BYTES:
        return f"has {size} bytes"
    if any(ord(char) < 32 or ord(char) == 127 for char in path):
        return "holds a control character"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "does not lead down from the top of the work tree"
    if any(part.lower() == ".git" for part in parts):
        return "leads into a repository's own files"
    return ""
