"""Where requests lie in a layer, and which of its files no child may rely on. It does no I/O."""

from __future__ import annotations

from callboard.layers import work_items

PENDING = "child_requests/pending"
ACCEPTED = "child_requests/accepted"
REJECTED = "child_requests/rejected"
RECEIPT = ".receipt.json"
SNAPSHOTS = "project_state/dispatch_inputs"
LEDGER = f"project_state/{work_items.NAME}"
BUILDING = ".building"
REQUEST = "inputs/accepted_request.json"
ARTIFACTS = "inputs/artifacts"

MUTABLE = frozenset(
    {
        LEDGER,
        "project_state/finished.md",
        "state.json",
        "children.json",
        "control.json",
        "events.jsonl",
        "stop_request.json",
        "inputs/updates.jsonl",
    }
)
"""What changes while a layer lives, so that no digest of it can hold."""


def snapshot_ref(request_id: str) -> str:
    """How a request names its snapshot, as seen from the child."""
    return f"parent:/{SNAPSHOTS}/{request_id}.json"
