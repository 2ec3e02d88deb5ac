"""What bodies of staged intents must be, for types whose form is known above the outputs.

The worker's side and the trusted side judge by this one table, so that what a worker was told is
what happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from callboard import canonical
from callboard.board.outputs.messages import BODY_LIMITS
from callboard.board.publishing.intents import MAX_NODES
from callboard.board.publishing.plan import Plan, parse_plan
from callboard.errors import CallboardError


def read_plan(data: bytes) -> Plan:
    """The plan in a staged body. Raises what `parse_plan` raises, or a codec code."""
    return parse_plan(canonical.decode(data, limit_bytes=BODY_LIMITS["submit"]))


def _check_plan(data: bytes) -> None:
    plan = read_plan(data)
    if len(plan.nodes) > MAX_NODES:
        raise CallboardError(
            "plan_too_large",
            f"the plan has {len(plan.nodes)} nodes, one that is staged may have {MAX_NODES}",
            "stage several plans of one named graph; a later one may name nodes of an earlier one",
            {"count": len(plan.nodes), "limit": MAX_NODES},
        )


INTENT_CHECKS: Mapping[str, Callable[[bytes], None]] = MappingProxyType({"submit": _check_plan})
"""Output type -> what judges the bytes of its body."""
