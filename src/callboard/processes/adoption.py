"""Whether processes that lose their parent come to this process, and asking for it.

An adopting supervisor sees what its run left behind even where that wiped its own environment.
Linux only; elsewhere the answers are `False` and nothing changes.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37


def adopt_orphans() -> bool:
    """Make this process the new parent of its orphaned descendants; True where that took effect.

    Holds for the whole process and for its life. Meant for a supervisor's own process.
    """
    if sys.platform != "linux":
        return False
    return _prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1)) == 0


def adopts() -> bool:
    """Whether orphaned descendants become children of this process."""
    if os.getpid() == 1:
        return True
    if sys.platform != "linux":
        return False
    answer = ctypes.c_int(0)
    return _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer)) == 0 and answer.value == 1


def _prctl(option: int, argument: object) -> int:
    try:
        call = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return -1
    nothing = ctypes.c_ulong(0)
    return int(call(ctypes.c_int(option), argument, nothing, nothing, nothing))
