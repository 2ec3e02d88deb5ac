"""The types of outputs: those that every board knows, and how a project's own are named.

Source: specification 1, §7.14; wire-v3 §9. Names and numbers only; what a type does is its
handler's.
"""

from __future__ import annotations

import re
from types import MappingProxyType

BUILT_IN = MappingProxyType(
    {
        "artifact": 128,
        "patch": 1,
        "note": 16,
        "memory": 1,
        "submit": 16,
        "dispatch_next": 16,
        "noop": 1,
    }
)
"""Built-in output type -> the most that one Claim can deliver of it.

Also the order in which a result tells of outputs: bytes depend on it.
"""

CONTROLS = frozenset({"submit", "dispatch_next"})
"""Types whose effect is a request to the board itself."""

MOST_OF_ONE_TYPE = 128
_OWN = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)+")
_MAX_NAME_BYTES = 64


def is_own_type(name: str) -> bool:
    """Whether the name can be that of a project's own type: lower-case words with a dot between."""
    return len(name) <= _MAX_NAME_BYTES and _OWN.fullmatch(name) is not None


def most_of(name: str) -> int | None:
    """The most that one Claim can deliver of a type; None where no type has that name."""
    if is_own_type(name):
        return MOST_OF_ONE_TYPE
    return BUILT_IN.get(name)
