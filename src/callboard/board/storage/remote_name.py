"""The `owner/name` that a remote's URL stands for. Never shows any other part of the URL."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_SCHEMES = ("http", "https", "ssh", "git", "git+ssh", "ssh+git", "git+https")
_PART = re.compile(r"[A-Za-z0-9_.-]+")
_SCP_LIKE = re.compile(r"(?:[^@/:]+@)?(?P<host>\[[^\]]+\]|[^@/:\[\]]{2,}):(?P<path>(?!//).+)")


def slug(url: str) -> str | None:
    """`owner/name` of an http(s), git, ssh or scp-like URL; None for a local path or no name.

    With more than two parts (a path prefix, nested groups) the last two count.
    """
    path = _remote_path(url.strip())
    if path is None:
        return None
    parts = [part for part in path.split("/") if part]
    if len(parts) < 2:
        return None
    owner, name = parts[-2], parts[-1].removesuffix(".git")
    for part in (owner, name):
        if not _PART.fullmatch(part) or part in (".", ".."):
            return None
    return f"{owner}/{name}"


def _remote_path(url: str) -> str | None:
    if "://" in url:
        try:
            parsed = urlsplit(url)
        except ValueError:
            return None
        return parsed.path if parsed.scheme.lower() in _SCHEMES and parsed.netloc else None
    match = _SCP_LIKE.fullmatch(url)
    return match["path"] if match else None
