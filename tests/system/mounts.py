"""File systems of a test's own: a small one that can be filled, and places that are read-only.

They are mounted in a mount namespace of this process, so that nobody else sees them and none of
them outlives it. That needs the right to mount; `own_mounts` tells whether there is.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

DISK_BYTES = 24 * 1024 * 1024
_CLONE_NEWNS = 0x00020000


@cache
def own_mounts() -> bool:
    """Give this process mounts of its own, which end with it; False where it may have none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(_CLONE_NEWNS) != 0:
        return False
    return mount("--make-rprivate", "/")


def mount(*words: str) -> bool:
    """Call mount(8); tells whether it did as asked."""
    return subprocess.run(["mount", *words], capture_output=True, check=False).returncode == 0


def unmount(path: Path) -> None:
    """Take the topmost mount at `path` away, also under who still works in it."""
    subprocess.run(["umount", "--lazy", str(path)], check=True, capture_output=True)


@contextmanager
def small_disk(root: Path) -> Iterator[Path]:
    """A file system of 24 MiB that holds the repository and the state folder of a world."""
    disk = root / "disk"
    disk.mkdir(parents=True)
    assert mount("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "matrix", str(disk))
    bound = []
    try:
        for name in ("repository", "state"):
            (disk / name).mkdir(mode=0o700)
            (root / name).mkdir(mode=0o700)
            assert mount("--bind", str(disk / name), str(root / name))
            bound.append(root / name)
        yield disk
    finally:
        for place in (*bound, disk):
            unmount(place)
