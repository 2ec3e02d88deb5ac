"""How deep layers may lie in this repository: agents are told absolute paths, and no path of this
system is longer than 4096 bytes. Pure, but for the path of the repository itself."""

from __future__ import annotations

import os

from callboard.errors import CallboardError
from callboard.layers.disk import Disk
from callboard.layers.tree import MAX_DEPTH, SESSIONS, Layer

MAX_PATH_BYTES = 4096
BELOW_BYTES = 400
"""For what lies in a layer's folder, such as an attempt's files or a request."""
_ID_BYTES = len("20260131_101500_01234567_01234567")
_STEP_BYTES = _ID_BYTES + len("/children/")


def deepest(disk: Disk) -> int:
    """The depth of the deepest layer whose files can still be named; below 0: no root fits."""
    root = _bytes(disk, SESSIONS) + 1 + _ID_BYTES + BELOW_BYTES
    return min((MAX_PATH_BYTES - root) // _STEP_BYTES, MAX_DEPTH)


def check_depth(disk: Disk, max_depth: int) -> None:
    """Refuse a tree that may grow deeper than its paths allow: `path_too_long`."""
    fits = deepest(disk)
    if max_depth <= fits:
        return
    there = f"the repository's own path has {_bytes(disk, '')} bytes"
    if fits < 0:
        raise _too_long(f"{there}, which leaves no room for a layer", "move it to a shorter path")
    raise _too_long(
        f"max_depth is {max_depth}, and {there}: layers fit down to depth {fits}",
        f"give a max_depth of 0 to {fits}, or move the repository to a shorter path",
    )


def check_child(disk: Disk, layer: Layer) -> None:
    """Refuse a child of `layer` whose files could not be named: `path_too_long`."""
    size = _bytes(disk, layer.place) + _STEP_BYTES + BELOW_BYTES
    if size > MAX_PATH_BYTES:
        raise _too_long(
            f"files of a child at depth {layer.session.depth + 1} would have paths of {size} bytes",
            "do the work in this layer; the repository lies at a longer path than when its tree"
            " was begun",
        )


def _bytes(disk: Disk, place: str) -> int:
    return len(os.fsencode(disk.path(place)))


def _too_long(what: str, hint: str) -> CallboardError:
    return CallboardError(
        "path_too_long",
        f"{what}; no path may have more than {MAX_PATH_BYTES} bytes",
        hint,
        {"limit_bytes": MAX_PATH_BYTES},
    )
