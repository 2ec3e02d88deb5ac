"""Where a board's branch was last, as a file of this clone says: that there was a board at all.

A file in `<common_dir>/callboard`, one a ref, beside the note of its packs. A branch that is gone
is told by it from one that never was. It is no authority over what the board holds, is not synced,
and may lag behind; where it cannot be written the board does without.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path

from dulwich.file import SharedPerm, adjust_shared_perm

from callboard.board.storage.vanishing import make_folders
from callboard.errors import CallboardError

_OID = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})\n\Z")
_LIMIT_BYTES = 128


class LastTip:
    """The file about `ref`. `shared` is how the repository shares its files among users."""

    def __init__(self, common_dir: Path, ref: str, shared: SharedPerm | None) -> None:
        name = hashlib.sha256(ref.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._common_dir = common_dir
        self._shared = shared
        self.path = common_dir / "callboard" / f"tip-{name}"

    def read(self) -> str | None:
        """The commit id; None where there is no such file, or none that can be read."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as stream:
                found = _OID.match(stream.read(_LIMIT_BYTES))
        except OSError:
            return None
        return None if found is None else found[1].decode("ascii")

    def write(self, revision: str) -> None:
        """Say that the branch is at `revision` now."""
        # All ids of a repository are of one length, so that one write replaces the other whole.
        with contextlib.suppress(OSError, CallboardError):
            make_folders(self._common_dir, self.path.parent, self._shared, set())
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(self.path, flags, 0o644), "wb", buffering=0) as stream:
                adjust_shared_perm(self.path, self._shared)
                stream.write(revision.encode("ascii") + b"\n")
