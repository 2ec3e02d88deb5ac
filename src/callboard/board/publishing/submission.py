"""The requests that a plan is posted in: the whole of it, or portions that each fit a request.

Source: specification 1, §7.7; wire-v3 §10. A portion is a plan of its own whose predecessors stand
in it or in an earlier one; what it is posted as is decided by its intent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import structs

from callboard import canonical
from callboard.board.publishing.intents import MAX_NODES, Intent
from callboard.board.publishing.plan import Plan, in_order
from callboard.board.publishing.publisher import Publisher
from callboard.board.storage.memory import MemoryStore
from callboard.clock import Clock

MAX_PORTION_BYTES = 6 * 1024 * 1024
"""What the nodes of one request may take; a line holds each of them twice, and 8 MiB at most."""
_NODE_FRAME_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Portion:
    """What one request posts; `places` says where each of its nodes stands in the whole plan."""

    request_id: str
    plan: Plan
    places: list[int]


def whole(plan: Plan, request_id: str) -> Portion:
    """The plan as one request."""
    return Portion(request_id, plan, list(range(len(plan.nodes))))


def split_plan(plan: Plan, request_id: str) -> list[Portion]:
    """The plan in requests `<id>.<k>` that a ledger line can hold, predecessors first; a plan
    that fits one stays whole."""
    groups = _groups(plan, MAX_NODES - 1)
    if len(groups) == 1:
        return [whole(plan, request_id)]
    return [
        Portion(
            f"{request_id}.{number}",
            structs.replace(plan, nodes=[plan.nodes[place] for place in places]),
            places,
        )
        for number, places in enumerate(groups, start=1)
    ]


def _groups(plan: Plan, max_nodes: int) -> list[list[int]]:
    groups: list[list[int]] = [[]]
    size = 0
    for index in in_order(plan):
        node = plan.nodes[index]
        after = node.after if isinstance(node.after, list) else []
        payload = len(canonical.encode_trusted(node.payload))
        grown = 2 * (payload + _NODE_FRAME_BYTES + 100 * len(after))
        if groups[-1] and (len(groups[-1]) >= max_nodes or size + grown > MAX_PORTION_BYTES):
            groups.append([])
            size = 0
        groups[-1].append(index)
        size += grown
    return groups


def rehearse(intents: Iterable[Intent], data: bytes, clock: Clock) -> None:
    """Publish to a copy of the ledger `data` in memory, to be refused there if anywhere."""
    stage = Publisher(MemoryStore(data or None), clock)
    for intent in intents:
        stage.publish(intent)
