"""What a worker may remember, and where: one JSON file of one shape, on a branch of each Claim.

Source: specification 1, §9.1. Stated by a worker's recipe and never by the worker; a memory is an
output like others, no second record of the board and no authority.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_PATH_BYTES = 200
MAX_BRANCH_BYTES = 64
_PART = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,99}")
_STEM = re.compile(r"[A-Za-z0-9._-]*[A-Za-z0-9_-]")
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
_SUFFIX = ".json"
_KEPT_FREE = frozenset({".git", ".callboard"})
_REVISION = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class MemoryRules:
    """One worker's memory: the file `path`, in commits upon `base`, on branches named after
    `branch`. `base` is a full commit id, None for the commit that a run begins at."""

    path: str
    branch: str
    schema: Mapping[str, Any]
    base: str | None = None


def path_fault(path: object) -> str:
    """What is wrong with the path of a memory; "" if nothing."""
    if not isinstance(path, str) or not path.endswith(_SUFFIX):
        return f"is not the path of a file whose name ends in {_SUFFIX}"
    if len(path) > MAX_PATH_BYTES:
        return f"has {len(path)} characters, at most {MAX_PATH_BYTES} are allowed"
    if ".." in path:
        return "holds '..', which nothing that an output touches may"
    *_folders, name = parts = path.split("/")
    for part in parts:
        if not _PART.fullmatch(part) or part == ".":
            return (
                f"has the part {part[:80]!r}; plain names of letters, digits, '.', '_' and '-' do"
            )
        if part.casefold() in _KEPT_FREE:
            return f"leads through {part!r}, which is kept free of memories"
    return "" if _STEM.fullmatch(name.removesuffix(_SUFFIX)) else "has no name before its suffix"


def branch_fault(branch: object) -> str:
    """What is wrong with the name that the branches of a memory share; "" if nothing."""
    if not isinstance(branch, str) or not _BRANCH.fullmatch(branch):
        return "is not a name of letters, digits, '_', '-' and single '.' between them"
    if len(branch) > MAX_BRANCH_BYTES:
        return f"has {len(branch)} characters, at most {MAX_BRANCH_BYTES} are allowed"
    return "ends in .lock, as no part of a ref may" if branch.endswith(".lock") else ""


def base_fault(base: object) -> str:
    """What is wrong with the commit that memories stand upon; "" if nothing."""
    if base is None or (isinstance(base, str) and _REVISION.fullmatch(base)):
        return ""
    return "is not a full commit id, 40 or 64 digits in lower case"
