"""What bodies of staged intents must be, for types whose form is known above the outputs.

The worker's side and the trusted side judge by this one table, so that what a worker was told is
what happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from callboard import canonical
from callboard.board.outputs.messages import BODY_LIMITS
from callboard.board.publishing.plan import Plan, parse_plan


def read_plan(data: bytes) -> Plan:
    """The plan in a staged body. Raises what `parse_plan` raises, or a codec code."""
    return parse_plan(canonical.decode(data, limit_bytes=BODY_LIMITS["submit"]))


def _check_plan(data: bytes) -> None:
    read_plan(data)


INTENT_CHECKS: Mapping[str, Callable[[bytes], None]] = MappingProxyType({"submit": _check_plan})
"""Output type -> what judges the bytes of its body."""
