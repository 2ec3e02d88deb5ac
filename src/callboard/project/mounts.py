"""Which file system a path lies on, as far as the system tells.

A database that several processes share needs locks and shared memory that a network's file systems
do not keep. Reads the table of mounts and nothing else; where there is none, nothing is known.
"""

from __future__ import annotations

import re
from pathlib import Path

from callboard.errors import CallboardError

SYSTEM = Path("/proc/self/mounts")

# What other machines, or other kernels, may have open at the same time.
NETWORKED = frozenset(
    "9p afs beegfs ceph cifs coda davfs fuse.ceph fuse.cephfs fuse.glusterfs fuse.rclone "
    "fuse.s3fs fuse.sshfs fuse.vmhgfs-fuse gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 "
    "prl_fs pvfs2 smb3 smbfs vboxsf virtiofs vmhgfs".split()
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def kind_of(path: Path, mounts: Path = SYSTEM) -> str | None:
    """The type of the file system that `path` (existing or not) is on; None: nobody knows."""
    try:
        table = mounts.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return None
    place = path.resolve()
    best, kind = -1, None
    for line in table.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = Path(_ESCAPE.sub(lambda found: chr(int(found[1], 8)), words[1]))
        # A later mount at the same point covers the one before.
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), words[2]
    return kind


def check(path: Path, mounts: Path = SYSTEM) -> None:
    """Refuse a place on a network with `filesystem_unsupported`."""
    kind = kind_of(path, mounts)
    if kind in NETWORKED:
        raise CallboardError(
            "filesystem_unsupported",
            f"{str(path)!r} is on a {kind} file system, which other machines may have open too",
            "keep the project's folder on a disk of this machine; several machines share a "
            "project through a service, not through a file",
            {"filesystem": kind},
        )
